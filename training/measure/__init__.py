"""Measures networks: accuracy, calibration, history and reports."""
