"""Serves the OpenVINO peer, in bfloat16 or in bytes."""

import argparse
from pathlib import Path

import openvino

from benchmarks.peers.batching import Ids, Logits
from benchmarks.peers.batching_app import cores, serve
from benchmarks.peers.exported import exported

_GROUP = 384  # the hidden size of the default model; smaller is slower


class OpenVinoEngine:
    """Computes each lane's batches on a stream of its own, and one text alone on all cores.

    Args:
        checkpoint: a folder in the Hugging Face layout.
        precision: "bf16" or "int8".
        lanes: streams, which share the cores.
    """

    def __init__(self, checkpoint: Path, *, precision: str, lanes: int) -> None:
        self.lanes = lanes
        core = openvino.Core()
        model = core.read_model(
            exported(checkpoint, "benchmarks.peers.openvino_export", precision, ".xml")
        )

        def compiled(streams: int) -> openvino.CompiledModel:
            return core.compile_model(
                model,
                "CPU",
                {
                    "INFERENCE_PRECISION_HINT": "bf16",  # of what is not in bytes
                    "NUM_STREAMS": str(streams),
                    "INFERENCE_NUM_THREADS": cores(),
                    # Scales of the activations: one for each token and this many numbers.
                    "DYNAMIC_QUANTIZATION_GROUP_SIZE": _GROUP,
                },
            )

        shared = compiled(lanes)
        self._requests = [shared.create_infer_request() for _ in range(lanes)]
        self._alone = compiled(1).create_infer_request() if lanes > 1 else self._requests[0]

    def run(self, ids: Ids, mask: Ids, *, lane: int, alone: bool) -> Logits:
        """Computes a batch; see `Engine`."""
        request = self._alone if alone else self._requests[lane]
        request.start_async({"input_ids": ids, "attention_mask": mask}, share_inputs=True)
        request.wait()
        logits: Logits = request.get_output_tensor().data.copy()
        return logits


def open_engine(checkpoint: Path, given: argparse.Namespace) -> OpenVinoEngine:
    """Opens a checkpoint as the command line says."""
    return OpenVinoEngine(checkpoint, precision=given.precision, lanes=given.lanes)


if __name__ == "__main__":
    serve("OpenVINO with batches by tokens.", open_engine)
