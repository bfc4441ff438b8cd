"""Scores large files of text without a server; imports only `model` of the project."""
