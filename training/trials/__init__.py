"""Trains several networks for their figures: folds of cross-validation, and trials of a search."""
