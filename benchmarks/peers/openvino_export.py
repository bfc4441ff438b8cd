"""Writes a checkpoint as OpenVINO IR, its weights in float32 or, by NNCF, in bytes."""

import argparse
from pathlib import Path

import nncf
import openvino

from benchmarks.peers.export_network import example, read_network


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description="From a checkpoint to OpenVINO IR.")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--precision", choices=("bf16", "int8"), required=True)
    parser.add_argument("file", type=Path, help="to write, .xml")
    given = parser.parse_args()
    ids, mask = example()
    model = openvino.convert_model(
        read_network(given.checkpoint),
        example_input={"input_ids": ids, "attention_mask": mask},
    )
    if given.precision == "int8":
        # Activations follow at run time, for each token. Calibrated beforehand they are faster, but
        # then some labels differ.
        model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
    openvino.save_model(model, given.file, compress_to_fp16=False)


if __name__ == "__main__":
    main()
