"""Reads, checks and writes checkpoint folders."""
