"""Reads tables of texts, for training and scoring alike; `files` names their forms."""
