"""Trains checkpoints on labelled text and measures them."""
