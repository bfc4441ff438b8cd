"""Checks, loads and saves `model.safetensors`; an encoder uses the names of transformers.

Others may divide it into parts, which `model.safetensors.index.json` names. Then every function
still takes the path of `model.safetensors`.
"""

import logging
from collections.abc import Iterable, Mapping
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


def check_weights(path: Path, network: nn.Module, kind: Kind | None = BERT) -> None:
    """Compares the names, shapes and types in a weights file with the parameters of a network.

    A weight that is no part of such a network is only logged.

    Args:
        kind: whose names the file has; None: our own.

    Raises:
        CheckpointError: the file is missing or damaged, or does not fit.
    """
    needed = {_stored(kind, name): tuple(each.shape) for name, each in network.named_parameters()}
    found = _header(path)
    path = path if path.exists() else path.with_name(INDEX)
    if missing := sorted(needed.keys() - found.keys()):
        raise CheckpointError(path, f"lacks {_some(missing)}, which config.json asks for")
    surplus = sorted(found.keys() - needed.keys())
    if misplaced := [name for name in surplus if kind is None or kind.has_place(name)]:
        raise CheckpointError(path, f"holds {_some(misplaced)}, which config.json has no place for")
    if surplus:
        _log.warning(
            "weights that no classifier has are not read", extra={"weights": _some(surplus)}
        )
    for name, wanted in needed.items():
        shape, dtype = found[name]
        if shape != wanted:
            raise CheckpointError(path, f"{name} has shape {shape}, config.json asks for {wanted}")
        if dtype not in _FLOATS:
            raise CheckpointError(
                path, f"{name} has type {dtype}, must be one of {', '.join(sorted(_FLOATS))}"
            )


def _stored(kind: Kind | None, name: str) -> str:
    """The name in the file of a parameter with our name."""
    return name if kind is None else kind.stored_name(name)


def _header(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """The shape and the type of each weight."""
    found: dict[str, tuple[tuple[int, ...], str]] = {}
    for part in weight_files(path):
        if not part.is_file():
            told = "is missing"
            for pickled in part.parent.glob("pytorch_model*.bin"):
                told = (
                    f"is missing; {pickled.name} is there, but nothing is unpickled here: save "
                    "the model as safetensors"
                )
            raise CheckpointError(part, told)
        try:
            with safetensors.safe_open(part, framework="pt") as file:
                for stored in file.keys():  # noqa: SIM118
                    name, item = _modern(stored), file.get_slice(stored)
                    if name in found:
                        raise CheckpointError(part, f"holds {shorten(name)}, as another name does")
                    found[name] = tuple(item.get_shape()), item.get_dtype()
        except (safetensors.SafetensorError, OSError) as error:
            raise CheckpointError(part, f"is damaged or cut short: {error}") from error
    return found


def load_weights(
    path: Path, contents: Iterable[bytes], network: nn.Module, kind: Kind | None = BERT
) -> None:
    """Loads what `read_weights` returns into a network on the CPU, after `check_weights`.

    Raises:
        CheckpointError: a weight is not a finite number.
    """
    stored = _join(map(safetensors.torch.load, contents))
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            theirs = _stored(kind, name)
            _copy_weight(parameter, stored[theirs], path, theirs)


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
    path: Path, weights: Mapping[str, Tensor], kind: Kind | None = BERT, *, dtype: torch.dtype
) -> None:
    """Writes the parameters of a network."""
    stored = {
        _stored(kind, name): weight.detach().to("cpu", dtype).contiguous()
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
    shapes = {name: shape for name, (shape, _) in _header(path).items()}
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
            elif (
                (rows and shape is not None)
                and shape[1:] == tuple(parameter.shape[1:])
                and max(rows.values()) < shape[0]
            ):
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


def _some(names: list[str]) -> str:
    shown = ", ".join(map(shorten, names[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
