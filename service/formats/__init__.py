"""Writes answers as JSON, NPZ, CSV and SVG."""
