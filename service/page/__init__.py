"""Serves the pages for people, with the files that they load."""
