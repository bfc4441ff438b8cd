"""Holds what depends on the device that a network runs on: one seam, two ways through it."""
