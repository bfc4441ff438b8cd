"""Reads labelled and unlabelled files into rows, splits and batches."""

from training.data.dataset import Dataset, read_dataset

__all__ = ["Dataset", "read_dataset"]
