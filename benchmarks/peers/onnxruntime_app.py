"""Serves the ONNX Runtime peer, in bytes."""

import argparse
from pathlib import Path

import onnxruntime

from benchmarks.peers.batching import Ids, Logits
from benchmarks.peers.batching_app import cores, serve
from benchmarks.peers.exported import exported


class OnnxRuntimeEngine:
    """Computes each lane's batches on its share of the cores, and one text alone on all of them.

    Args:
        checkpoint: a folder in the Hugging Face layout.
        lanes: passes at once, which share the cores.
    """

    def __init__(self, checkpoint: Path, *, lanes: int) -> None:
        self.lanes = lanes
        file = exported(checkpoint, "benchmarks.peers.onnxruntime_export", "int8", ".onnx")

        def session(threads: int) -> onnxruntime.InferenceSession:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            # Threads spin within a pass, where they wait for each other, and not after it.
            options.add_session_config_entry("session.intra_op.allow_spinning", "1")
            options.add_session_config_entry("session.force_spinning_stop", "1")
            return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

        self._shared = session(max(1, cores() // lanes))
        self._alone = session(cores()) if lanes > 1 else self._shared

    def run(self, ids: Ids, mask: Ids, *, lane: int, alone: bool) -> Logits:  # noqa: ARG002
        """Computes a batch; see `Engine`. Lanes share a session."""
        session = self._alone if alone else self._shared
        logits: Logits
        (logits,) = session.run(None, {"input_ids": ids, "attention_mask": mask})
        return logits


def open_engine(checkpoint: Path, given: argparse.Namespace) -> OnnxRuntimeEngine:
    """Opens a checkpoint as the command line says."""
    return OnnxRuntimeEngine(checkpoint, lanes=given.lanes)


if __name__ == "__main__":
    serve("ONNX Runtime with batches by tokens.", open_engine)
