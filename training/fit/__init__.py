"""Trains one network on rows: recipe, steps, state and checkpoint."""
