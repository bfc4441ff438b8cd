"""Parses options and shows progress for all commands."""

from model.cli.arguments import LineParser, add_version, number, positive, whole

__all__ = [
    "LineParser",
    "add_version",
    "number",
    "positive",
    "whole",
]
