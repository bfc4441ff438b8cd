"""Logs the course of a run to TensorBoard and MLflow."""
