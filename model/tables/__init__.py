"""Reads tables of texts: TSV, CSV, JSON Lines and Parquet, for training and scoring alike."""
