"""Writes a checkpoint as ONNX with its weights in bytes; activations follow at run time."""

import argparse
import tempfile
import warnings
from pathlib import Path

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

from benchmarks.peers.export_network import example, read_network


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description="From a checkpoint to ONNX in bytes.")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--precision", choices=("int8",), required=True)
    parser.add_argument("file", type=Path, help="to write, .onnx")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of the exporter by tracing
    with tempfile.TemporaryDirectory(dir=given.file.parent) as folder:
        whole = Path(folder) / "float32.onnx"
        torch.onnx.export(
            read_network(given.checkpoint),
            example(),
            str(whole),
            input_names=["input_ids", "attention_mask"],
            output_names=["logits"],
            dynamic_axes={
                "input_ids": {0: "texts", 1: "tokens"},
                "attention_mask": {0: "texts", 1: "tokens"},
                "logits": {0: "texts"},
            },
            opset_version=17,
            dynamo=False,
        )
        quantize_dynamic(whole, given.file, per_channel=True, weight_type=QuantType.QInt8)


if __name__ == "__main__":
    main()
