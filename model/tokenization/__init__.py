"""Turns text into tokens, and reads tokenizer files."""
