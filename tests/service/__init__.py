"""The parts of the service by themselves."""
