"""Training and measuring: from labelled text to a checkpoint and its figures."""
