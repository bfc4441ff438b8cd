"""Holds bytes, connections and who may come in; knows no sentence."""
