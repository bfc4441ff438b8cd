"""Measures the speed of the service beside other servers, and prints the ratios."""
