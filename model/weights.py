"""`model.safetensors`: parameters, an encoder's under the names that transformers gives them."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from model.errors import CheckpointError

# (our name, theirs); the first that matches the beginning of a name is taken.
_NAMES = (
    ("embeddings.tokens.", "bert.embeddings.word_embeddings."),
    ("embeddings.positions.", "bert.embeddings.position_embeddings."),
    ("embeddings.types.", "bert.embeddings.token_type_embeddings."),
    ("embeddings.norm.", "bert.embeddings.LayerNorm."),
    ("pooler.", "bert.pooler.dense."),
    ("classifier.", "classifier."),
)
_LAYER_NAMES = (
    ("attention.query.", "attention.self.query."),
    ("attention.key.", "attention.self.key."),
    ("attention.value.", "attention.self.value."),
    ("attention.output.", "attention.output.dense."),
    ("attention_norm.", "attention.output.LayerNorm."),
    ("intermediate.", "intermediate.dense."),
    ("output.", "output.dense."),
    ("output_norm.", "output.LayerNorm."),
)
_OUR_LAYER = re.compile(r"layers\.(\d+)\.(.+)")
# Older releases of transformers stored these constants beside the weights.
_CONSTANTS = frozenset({"bert.embeddings.position_ids", "bert.embeddings.token_type_ids"})
# Still older ones named the parameters of a layer norm so.
_OLD_ENDINGS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


def transformers_name(name: str) -> str:
    """The name in transformers' BERT of one of our parameters.

    Args:
        name: as `EncoderClassifier.named_parameters` gives it.
    """
    in_layer = _OUR_LAYER.fullmatch(name)
    if in_layer is None:
        return _rename(name, _NAMES)
    return f"bert.encoder.layer.{in_layer[1]}.{_rename(in_layer[2], _LAYER_NAMES)}"


def own_name(name: str) -> str:
    """The name of a parameter that is stored under its own."""
    return name


def _rename(name: str, table: Iterable[tuple[str, str]]) -> str:
    for ours, theirs in table:
        if name.startswith(ours):
            return theirs + name.removeprefix(ours)
    raise KeyError(name)


def check_weights(
    path: Path, network: nn.Module, *, stored_name: Callable[[str], str] = transformers_name
) -> None:
    """Compares the header of a weights file with what a network needs, without reading weights.

    Args:
        path: the safetensors file.
        network: may be on the meta device.
        stored_name: the name in the file of one of our parameters.

    Raises:
        CheckpointError: the file is missing or damaged, or names, shapes or types do not fit.
    """
    needed = {
        stored_name(name): tuple(parameter.shape) for name, parameter in network.named_parameters()
    }
    found, types = _header(path)
    missing = sorted(needed.keys() - found.keys())
    if missing:
        raise CheckpointError(path, f"lacks {_some(missing)}, which config.json asks for")
    surplus = sorted(found.keys() - needed.keys() - _CONSTANTS)
    if surplus:
        raise CheckpointError(path, f"holds {_some(surplus)}, which config.json has no place for")
    for name, shape in needed.items():
        if found[name] != shape:
            raise CheckpointError(
                path, f"{name} has shape {found[name]}, config.json asks for {shape}"
            )
        if types[name] not in _FLOATS:
            raise CheckpointError(
                path, f"{name} has type {types[name]}, must be one of {', '.join(sorted(_FLOATS))}"
            )


def _header(path: Path) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    if not path.is_file():
        pickled = path.with_name("pytorch_model.bin").is_file()
        raise CheckpointError(
            path,
            "is missing; pytorch_model.bin is there, but nothing is unpickled here: save the "
            "model as safetensors"
            if pickled
            else "is missing",
        )
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            slices = {_modern(name): file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            shapes = {name: tuple(item.get_shape()) for name, item in slices.items()}
            types = {name: item.get_dtype() for name, item in slices.items()}
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(path, f"is damaged or cut short: {error}") from error
    return shapes, types


def load_weights(
    path: Path,
    content: bytes,
    network: nn.Module,
    *,
    stored_name: Callable[[str], str] = transformers_name,
) -> None:
    """Fills a network with the weights of a file that `check_weights` accepted.

    Args:
        path: of the file, for errors.
        content: of the file; 16-bit weights are widened to float32.
        network: on the CPU.
        stored_name: the name in the file of one of our parameters.

    Raises:
        CheckpointError: a weight is not a finite number.
    """
    stored = {_modern(name): weight for name, weight in safetensors.torch.load(content).items()}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            _fill(parameter, stored[stored_name(name)], path, stored_name(name))


def _modern(name: str) -> str:
    for old, new in _OLD_ENDINGS.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def _fill(parameter: Tensor, weight: Tensor, path: Path, name: str) -> None:
    parameter.copy_(weight)
    # After the copy: a number of 64 bits can be too large for 32.
    if not torch.isfinite(parameter).all():
        raise CheckpointError(path, f"{name} holds values that are not finite float32 numbers")


def save_weights(
    path: Path,
    weights: Mapping[str, Tensor],
    *,
    dtype: torch.dtype,
    stored_name: Callable[[str], str] = transformers_name,
) -> None:
    """Writes the parameters of a network.

    Args:
        path: the file to write.
        weights: our names and tensors, as `state_dict` gives them.
        dtype: what they are stored in.
        stored_name: the name in the file of one of our parameters.
    """
    stored = {
        stored_name(name): weight.detach().to("cpu", dtype).contiguous()
        for name, weight in weights.items()
    }
    # Not by save_file, whose files only their owner may read: a service runs as another user.
    path.write_bytes(safetensors.torch.save(stored, metadata={"format": "pt"}))


def load_encoder_weights(path: Path, network: nn.Module) -> list[str]:
    """Fills a network with what a pretrained encoder has; what it lacks keeps its fresh weights.

    Args:
        path: a safetensors file of any BERT model, with or without the prefix `bert.` in its
            names and with or without pooler and classifier.
        network: on the CPU, weights drawn.

    Returns:
        Our names of the parameters that the file did not give: at most those of the pooler and
        the classifier.

    Raises:
        CheckpointError: the file is missing or damaged, a weight of the encoder is missing or has
            another shape, or one is not a finite number.
    """
    shapes, _ = _header(path)
    prefix = "bert." if any(name.startswith("bert.") for name in shapes) else ""
    fresh: list[str] = []
    stored = {_modern(name): weight for name, weight in safetensors.torch.load_file(path).items()}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            theirs = transformers_name(name)
            theirs = prefix + theirs.removeprefix("bert.") if theirs != name else theirs
            shape = shapes.get(theirs)
            if shape == tuple(parameter.shape):
                _fill(parameter, stored[theirs], path, theirs)
            elif name.startswith(("classifier.", "pooler.")):
                fresh.append(name)
            else:
                fault = "is missing" if shape is None else f"has shape {shape}"
                raise CheckpointError(
                    path, f"{theirs} {fault}, the network needs {tuple(parameter.shape)}"
                )
    return fresh


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
