"""Holds the peers: other servers, written as plainly as people write them."""
