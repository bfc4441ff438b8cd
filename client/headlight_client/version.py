"""The version of this package, which the service sees in `User-Agent`."""

__version__ = "0.1.0"
