"""Adapts the protocols of other systems: their body, our call, their answer; a file for each."""
