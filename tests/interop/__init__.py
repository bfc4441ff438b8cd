"""Clients of other systems, unchanged, against a real service."""
