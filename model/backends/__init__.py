"""Decides everything that depends on the device of a network."""
