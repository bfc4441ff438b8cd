"""Holds the peers: a plain server, and one as an expert would write it by hand."""
