"""Serves the ONNX Runtime peer in int8 or float32."""

import argparse
from pathlib import Path

import onnxruntime

from benchmarks.peers.engine_server import Ids, Logits, cores, serve
from benchmarks.peers.export import exported


class OnnxRuntimeEngine:
    """Computes each batch on its share of the cores, and a single text on all of them."""

    def __init__(self, checkpoint: Path, *, precision: str, streams: int) -> None:
        self.streams = streams
        file = exported(checkpoint, "onnxruntime", precision)

        def session(threads: int) -> onnxruntime.InferenceSession:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            # Threads spin within a pass, where they wait for each other, and not after it.
            options.add_session_config_entry("session.intra_op.allow_spinning", "1")
            options.add_session_config_entry("session.force_spinning_stop", "1")
            return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

        self._shared = session(max(1, cores() // streams))
        self._all_cores = session(cores()) if streams > 1 else self._shared

    def run(self, ids: Ids, mask: Ids, *, stream: int, use_all_cores: bool) -> Logits:  # noqa: ARG002
        """Computes a batch; see `Engine`. All streams use one session."""
        session = self._all_cores if use_all_cores else self._shared
        logits: Logits
        (logits,) = session.run(None, {"input_ids": ids, "attention_mask": mask})
        return logits


def open_engine(checkpoint: Path, options: argparse.Namespace) -> OnnxRuntimeEngine:
    """Opens a checkpoint with the options of the command line."""
    return OnnxRuntimeEngine(checkpoint, precision=options.precision, streams=options.streams)


if __name__ == "__main__":
    serve("ONNX Runtime with batches by tokens.", open_engine)
