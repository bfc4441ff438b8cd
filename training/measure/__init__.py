"""Measures networks: accuracy, calibration, probes, history and reports."""
