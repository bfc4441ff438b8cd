"""Reads labelled and unlabelled files into rows, splits and batches."""
