"""Queues texts and runs them through the network in batches."""
