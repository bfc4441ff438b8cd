"""Writes answers: JSON, NPZ, CSV and SVG."""
