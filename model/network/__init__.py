"""Builds the networks and the batches that they read."""
