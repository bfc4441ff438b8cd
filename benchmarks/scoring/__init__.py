"""Measures `headlight-score` beside the model alone on the same texts."""
