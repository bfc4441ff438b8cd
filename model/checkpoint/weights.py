"""Checks, loads and saves `model.safetensors`; an encoder uses the names of transformers.

Others may divide it into parts, which `model.safetensors.index.json` names. Then every function
still takes the path of `model.safetensors`.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from model.errors import CheckpointError, shorten
from model.files import INDEX, digest, is_file_name, read_bytes, read_object
from model.network.families import BERT, Kind

# Old releases of transformers used these names for the parameters of a layer norm.
_OLD_ENDINGS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
#: maps our names of parameters to those of transformers' BERT
transformers_name: Callable[[str], str] = BERT.stored_name

_log = logging.getLogger("headlight.checkpoint")


def weight_files(path: Path) -> list[Path]:
    """Returns the file of the weights, or the parts that the index beside it names, by name.

    Raises:
        CheckpointError: the index names something else than files of the folder.
    """
    index = path.with_name(INDEX)
    if path.exists() or not index.is_file():
        return [path]
    places = read_object(index).get("weight_map")
    names = list(places.values()) if isinstance(places, dict) and places else [None]
    for name in names:
        if not is_file_name(name):
            raise CheckpointError(
                index, f"weight_map names {shorten(repr(name))}, must name files of the folder"
            )
    return [path.with_name(name) for name in sorted(set(map(str, names)))]


def digest_weights(path: Path) -> str:
    """Computes the SHA-256 of the weights, in hex; of parts, that of all their bytes in order."""
    return digest(*weight_files(path))


def read_weights(path: Path) -> list[bytes]:
    """Reads the file of the weights, or its parts."""
    return [read_bytes(file) for file in weight_files(path)]


def check_weights(
    path: Path,
    network: nn.Module,
    *,
    stored_name: Callable[[str], str] = transformers_name,
    has_place: Callable[[str], bool] = BERT.has_place,
) -> None:
    """Compares the names, shapes and types in a weights file with the parameters of a network.

    A weight that is no part of such a network is only logged.

    Raises:
        CheckpointError: the file is missing or damaged, or does not fit.
    """
    needed = {
        stored_name(name): tuple(parameter.shape) for name, parameter in network.named_parameters()
    }
    shapes, types = _header(path)
    path = path if path.exists() else path.with_name(INDEX)
    missing = sorted(needed.keys() - shapes.keys())
    if missing:
        raise CheckpointError(path, f"lacks {_some(missing)}, which config.json asks for")
    surplus = sorted(shapes.keys() - needed.keys())
    misplaced = [name for name in surplus if has_place(name)]
    if misplaced:
        raise CheckpointError(path, f"holds {_some(misplaced)}, which config.json has no place for")
    if surplus:
        _log.warning(
            "weights that no classifier has are not read", extra={"weights": _some(surplus)}
        )
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
    shapes: dict[str, tuple[int, ...]] = {}
    types: dict[str, str] = {}
    for part in weight_files(path):
        if not part.is_file():
            raise CheckpointError(part, _why_missing(part))
        try:
            with safetensors.safe_open(part, framework="pt") as file:
                for stored in file.keys():  # noqa: SIM118
                    name, item = _modern(stored), file.get_slice(stored)
                    if name in shapes:
                        raise CheckpointError(part, f"holds {shorten(name)}, as another name does")
                    shapes[name], types[name] = tuple(item.get_shape()), item.get_dtype()
        except (safetensors.SafetensorError, OSError) as error:
            raise CheckpointError(part, f"is damaged or cut short: {error}") from error
    return shapes, types


def _why_missing(path: Path) -> str:
    for pickled in sorted(path.parent.glob("pytorch_model*.bin")):
        return (
            f"is missing; {pickled.name} is there, but nothing is unpickled here: save the "
            "model as safetensors"
        )
    return "is missing"


def load_weights(
    path: Path,
    contents: Iterable[bytes],
    network: nn.Module,
    *,
    stored_name: Callable[[str], str] = transformers_name,
) -> None:
    """Loads what `read_weights` returns into a network on the CPU, after `check_weights`.

    Raises:
        CheckpointError: a weight is not a finite number.
    """
    stored = _join(map(safetensors.torch.load, contents))
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            _copy_weight(parameter, stored[stored_name(name)], path, stored_name(name))


def _join(parts: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {_modern(name): weight for part in parts for name, weight in part.items()}


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


def load_encoder_weights(
    path: Path,
    network: nn.Module,
    kind: Kind = BERT,
    *,
    classes: Mapping[int, int] | None = None,
) -> list[str]:
    """Loads the weights of a pretrained encoder; a head that does not fit keeps its fresh weights.

    Args:
        path: a safetensors file of any network of this kind, with or without the kind's prefix in
            its names, and with or without a head.
        network: on the CPU, with fresh weights.
        classes: rows of the last layer to load, as numbers of classes of the network, and of the
            file; None: all, if there are as many.

    Returns:
        Our names of the parameters that were not loaded, or not in full.

    Raises:
        CheckpointError: the file is damaged, or a weight is missing, misshapen or not finite.
    """
    shapes, _ = _header(path)
    is_bare = not any(name.startswith(kind.prefix) for name in shapes)
    fresh: list[str] = []
    stored = _join(map(safetensors.torch.load_file, weight_files(path)))
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            theirs = kind.stored_name(name)
            theirs = theirs.removeprefix(kind.prefix) if is_bare else theirs
            shape = shapes.get(theirs)
            rows = classes if name.startswith("classifier.") else None
            if rows is None and shape == tuple(parameter.shape):
                _copy_weight(parameter, stored[theirs], path, theirs)
            elif rows and _has_rows(shape, parameter, rows):
                weight = parameter.to(stored[theirs].dtype)
                weight[list(rows)] = stored[theirs][list(rows.values())]
                _copy_weight(parameter, weight, path, theirs)
                if len(rows) < len(parameter):
                    fresh.append(name)
            elif name.startswith(("classifier.", "pooler.")):
                fresh.append(name)
            else:
                fault = "is missing" if shape is None else f"has shape {shape}"
                raise CheckpointError(
                    path, f"{theirs} {fault}, the network needs {tuple(parameter.shape)}"
                )
    return fresh


def _has_rows(shape: tuple[int, ...] | None, parameter: Tensor, classes: Mapping[int, int]) -> bool:
    return (
        shape is not None
        and shape[1:] == tuple(parameter.shape[1:])
        and max(classes.values()) < shape[0]
    )


def _some(names: list[str]) -> str:
    shown = ", ".join(map(shorten, names[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
