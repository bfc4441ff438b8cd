"""Exports a checkpoint for OpenVINO or ONNX Runtime, and keeps the file for the next start."""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

_FOLDER = Path(sys.prefix) / "exported"
_SUFFIXES = {"openvino": ".xml", "onnxruntime": ".onnx"}
_FILES = ("config.json", "model.safetensors", "tokenizer.json")
_INPUTS = ("input_ids", "attention_mask")


def exported(checkpoint: Path, engine: str, precision: str, *, folder: Path = _FOLDER) -> Path:
    """Returns the file of a checkpoint for an engine in `folder`; exports it the first time.

    A child process exports, so that torch takes no memory from the server.

    Raises:
        CalledProcessError: the export failed.
    """
    digest = hashlib.sha256()
    for path in [*(checkpoint / name for name in _FILES), Path(__file__)]:
        digest.update(path.read_bytes())
    place = folder / digest.hexdigest()[:16]
    file = place / f"{precision}{_SUFFIXES[engine]}"
    if file.exists():
        return file
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as unfinished:
        written = Path(unfinished) / file.name
        command = [sys.executable, "-m", __spec__.name, "--checkpoint", str(checkpoint)]
        command += ["--engine", engine, "--precision", precision, str(written)]
        subprocess.run(command, check=True)  # noqa: S603 - this module
        # The named file last: its weights lie beside it and are complete then.
        for part in sorted(Path(unfinished).iterdir(), key=lambda each: each == written):
            part.replace(place / part.name)
    return file


def read_network(checkpoint: Path) -> Any:  # noqa: ANN401 - torch is imported only by the child
    """Reads the network of a checkpoint: float32 logits of ids and a mask.

    The last layer computes only the first token, which is all that the classifier reads. That
    saves a seventh of the work. B batch, T tokens, D hidden size, H heads, C labels.
    """
    import torch
    from torch.nn.functional import scaled_dot_product_attention
    from transformers import AutoModelForSequenceClassification

    class Network(torch.nn.Module):
        def __init__(self, classifier: torch.nn.Module) -> None:
            super().__init__()
            self.classifier = classifier

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            bert: Any = self.classifier.bert
            states = bert.embeddings(input_ids)  # [B, T, D]
            # Finite, so that bfloat16 sums stay finite.
            bias = (1.0 - attention_mask.float())[:, None, None, :] * -1e9  # [B, 1, 1, T]
            *_, last = bert.encoder.layer
            for layer in bert.encoder.layer:
                asking = states[:, :1] if layer is last else states
                attention = layer.attention.self
                size = (attention.num_attention_heads, -1)
                context = scaled_dot_product_attention(
                    attention.query(asking).unflatten(-1, size).transpose(1, 2),  # [B, H, T, D / H]
                    attention.key(states).unflatten(-1, size).transpose(1, 2),
                    attention.value(states).unflatten(-1, size).transpose(1, 2),
                    attn_mask=bias,
                )
                context = context.transpose(1, 2).flatten(2)  # [B, T, D]
                states = layer.attention.output(context, asking)
                states = layer.output(layer.intermediate(states), states)
            classify: Any = self.classifier.classifier
            logits: torch.Tensor = classify(bert.pooler(states))  # [B, C]
            return logits

    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, dtype=torch.float32)
    return Network(model).eval()


def example() -> tuple[Any, Any]:
    """Returns ids and a mask to trace the network with: two texts, one of them padded, [2, 7]."""
    import torch

    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    return torch.ones_like(mask), mask


def _write_openvino(checkpoint: Path, precision: str, file: Path) -> None:
    import nncf
    import openvino

    inputs = dict(zip(_INPUTS, example(), strict=True))
    model = openvino.convert_model(read_network(checkpoint), example_input=inputs)
    if precision == "int8":
        # Activations are quantized at run time, per token. Calibrated ones are faster, but then
        # some labels differ.
        model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
    openvino.save_model(model, file, compress_to_fp16=False)


def _write_onnx(checkpoint: Path, precision: str, file: Path) -> None:
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of the tracing exporter
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        float32 = Path(folder) / "float32.onnx"
        axes = {name: {0: "texts", 1: "tokens"} for name in _INPUTS}
        torch.onnx.export(
            read_network(checkpoint),
            example(),
            str(float32),
            input_names=list(_INPUTS),
            output_names=["logits"],
            dynamic_axes={**axes, "logits": {0: "texts"}},
            opset_version=17,
            dynamo=False,
        )
        if precision == "fp32":
            float32.replace(file)
        else:
            quantize_dynamic(float32, file, per_channel=True, weight_type=QuantType.QInt8)


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description="Exports a checkpoint for an engine.")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--engine", choices=list(_SUFFIXES), required=True)
    parser.add_argument("--precision", choices=("bf16", "int8", "fp32"), required=True)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    if options.engine == "openvino":
        _write_openvino(options.checkpoint, options.precision, options.file)
    else:
        _write_onnx(options.checkpoint, options.precision, options.file)


if __name__ == "__main__":
    main()
