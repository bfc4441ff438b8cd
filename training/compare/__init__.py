"""Compares variants of a network and writes the report."""
