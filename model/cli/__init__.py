"""Parses options and shows progress for all commands."""
