"""Serves predictions and attention over HTTP."""

import os

# Read when torch loads its threads: those that have nothing to do sleep, instead of keeping the
# cores from the event loop and from other passes.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
