"""Scores large files of text without a server; imports only `model` of the project."""

import os

# See `training`.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
