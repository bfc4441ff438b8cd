"""Handles bytes, connections and access; knows nothing of sentences."""
