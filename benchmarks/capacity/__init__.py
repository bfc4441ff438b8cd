"""Predicts how many replicas a load needs, from the measured cost of passes."""
