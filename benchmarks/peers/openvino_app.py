"""Serves the OpenVINO peer in bfloat16, int8 or float32."""

import argparse
from pathlib import Path

import openvino

from benchmarks.peers.engine_server import Ids, Logits, cores, serve
from benchmarks.peers.export import exported

_GROUP = 384  # the hidden size of the default model; smaller is slower


class OpenVinoEngine:
    """Computes each batch on a stream, and a single text on all cores."""

    def __init__(self, checkpoint: Path, *, precision: str, streams: int) -> None:
        self.streams = streams
        core = openvino.Core()
        model = core.read_model(exported(checkpoint, "openvino", precision))

        def compiled(count: int) -> openvino.CompiledModel:
            options = {
                # Of everything that is not int8; on a processor without bfloat16 it is float32.
                "INFERENCE_PRECISION_HINT": "f32" if precision == "fp32" else "bf16",
                "NUM_STREAMS": str(count),
                "INFERENCE_NUM_THREADS": cores(),
                # One scale of activations for each token and this many numbers.
                "DYNAMIC_QUANTIZATION_GROUP_SIZE": _GROUP,
            }
            return core.compile_model(model, "CPU", options)

        shared = compiled(streams)
        self._requests = [shared.create_infer_request() for _ in range(streams)]
        all_cores = compiled(1) if streams > 1 else shared
        self._all_cores = all_cores.create_infer_request()

    def run(self, ids: Ids, mask: Ids, *, stream: int, use_all_cores: bool) -> Logits:
        """Computes a batch; see `Engine`."""
        request = self._all_cores if use_all_cores else self._requests[stream]
        request.start_async({"input_ids": ids, "attention_mask": mask}, share_inputs=True)
        request.wait()
        logits: Logits = request.get_output_tensor().data.copy()
        return logits


def open_engine(checkpoint: Path, options: argparse.Namespace) -> OpenVinoEngine:
    """Opens a checkpoint with the options of the command line."""
    return OpenVinoEngine(checkpoint, precision=options.precision, streams=options.streams)


if __name__ == "__main__":
    serve("OpenVINO with batches by tokens.", open_engine)
