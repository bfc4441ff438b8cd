"""Holds the version of this package, which `User-Agent` carries."""

__version__ = "0.1.0"
