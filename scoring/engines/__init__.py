"""Runs the units of a job: on this machine, or on a cluster."""
