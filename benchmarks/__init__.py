"""Measures the speed of the service beside what people write otherwise, and prints the ratios."""
