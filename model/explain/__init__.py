"""Explains predictions by attention, gradients and interventions."""
