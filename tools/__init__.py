"""Holds programs for those who maintain the project."""
