"""Checks, loads and saves `model.safetensors`; an encoder uses the names of transformers."""

from collections.abc import Callable, Mapping
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from model.errors import CheckpointError
from model.network.families import BERT, Kind

# Old releases of transformers used these names for the parameters of a layer norm.
_OLD_ENDINGS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
#: maps our names of parameters to those of transformers' BERT
transformers_name: Callable[[str], str] = BERT.stored_name


def check_weights(
    path: Path,
    network: nn.Module,
    *,
    stored_name: Callable[[str], str] = transformers_name,
    unused: frozenset[str] = BERT.unused,
) -> None:
    """Compares the names, shapes and types in a weights file with the parameters of a network.

    Raises:
        CheckpointError: the file is missing or damaged, or does not fit.
    """
    needed = {
        stored_name(name): tuple(parameter.shape) for name, parameter in network.named_parameters()
    }
    shapes, types = _header(path)
    missing = sorted(needed.keys() - shapes.keys())
    if missing:
        raise CheckpointError(path, f"lacks {_some(missing)}, which config.json asks for")
    surplus = sorted(shapes.keys() - needed.keys() - unused)
    if surplus:
        raise CheckpointError(path, f"holds {_some(surplus)}, which config.json has no place for")
    for name, shape in needed.items():
        if shapes[name] != shape:
            raise CheckpointError(
                path, f"{name} has shape {shapes[name]}, config.json asks for {shape}"
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
    """Loads the bytes of a file that `check_weights` accepted into a network on the CPU.

    Raises:
        CheckpointError: a weight is not a finite number.
    """
    stored = {_modern(name): weight for name, weight in safetensors.torch.load(content).items()}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            _copy_weight(parameter, stored[stored_name(name)], path, stored_name(name))


def _modern(name: str) -> str:
    for old, new in _OLD_ENDINGS.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def _copy_weight(parameter: Tensor, weight: Tensor, path: Path, name: str) -> None:
    parameter.copy_(weight)
    # After the copy: a float64 number can be too large for float32.
    if not torch.isfinite(parameter).all():
        raise CheckpointError(path, f"{name} holds values that are not finite float32 numbers")


def save_weights(
    path: Path,
    weights: Mapping[str, Tensor],
    *,
    dtype: torch.dtype,
    stored_name: Callable[[str], str] = transformers_name,
) -> None:
    """Writes the parameters of a network."""
    stored = {
        stored_name(name): weight.detach().to("cpu", dtype).contiguous()
        for name, weight in weights.items()
    }
    # Only the owner may read a file of save_file, but the service runs as another user.
    path.write_bytes(safetensors.torch.save(stored, metadata={"format": "pt"}))


def load_encoder_weights(path: Path, network: nn.Module, kind: Kind = BERT) -> list[str]:
    """Loads the weights of a pretrained encoder; a head that does not fit keeps its fresh weights.

    Args:
        path: a safetensors file of any network of this kind, with or without the kind's prefix in
            its names, and with or without a head.
        network: on the CPU, with fresh weights.

    Returns:
        Our names of the parameters that were not loaded.

    Raises:
        CheckpointError: the file is damaged, or a weight is missing, misshapen or not finite.
    """
    shapes, _ = _header(path)
    is_bare = not any(name.startswith(kind.prefix) for name in shapes)
    fresh: list[str] = []
    stored = {_modern(name): weight for name, weight in safetensors.torch.load_file(path).items()}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            theirs = kind.stored_name(name)
            theirs = theirs.removeprefix(kind.prefix) if is_bare else theirs
            shape = shapes.get(theirs)
            if shape == tuple(parameter.shape):
                _copy_weight(parameter, stored[theirs], path, theirs)
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
