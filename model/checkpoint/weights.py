"""Checks, loads and saves `model.safetensors`; an encoder uses the names of transformers.

Others may divide it into parts, which `model.safetensors.index.json` names. Then every function
still takes the path of `model.safetensors`.
"""

import hashlib
import json
import logging
import mmap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors
from numpy.typing import NDArray

from model.errors import CheckpointError, shorten
from model.files import INDEX, digest, is_file_name, name_file_in_errors, read_object
from model.network.config import NetworkConfig, encoder_kind
from model.network.families import BERT, Kind

if TYPE_CHECKING:
    import torch
    from torch import Tensor

#: weights by our names, float32 or float16, as they lie on disk where that is possible
Weights = Mapping[str, NDArray[Any]]
VERSION_LENGTH = 12  # of a SHA-256, the first digits, which name a version

# Old releases of transformers used these names for the parameters of a layer norm.
_OLD_ENDINGS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
# NumPy has no bfloat16: the upper half of a float32.
_FLOATS = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}

_log = logging.getLogger("headlight.checkpoint")


class MappedWeights(dict[str, NDArray[Any]]):
    """Weights by our names, of files that are mapped into memory."""

    maps: Sequence[mmap.mmap] = ()

    def release(self) -> None:
        """Gives the memory of the files back; what is used again comes from them."""
        for each in self.maps:
            if hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
                each.madvise(mmap.MADV_DONTNEED)


def weight_files(path: Path) -> list[Path]:
    """Returns the file of the weights, or the parts that the index beside it names, by name."""
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


def _map(path: Path) -> list[mmap.mmap]:
    """Maps the file of the weights, or its parts, into memory, where replicas share it."""
    maps = []
    for part in weight_files(path):
        with name_file_in_errors(part), part.open("rb") as file:
            if not part.stat().st_size:
                raise CheckpointError(part, "cannot be read: it is empty")
            maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    return maps


def check_weights(path: Path, config: NetworkConfig) -> None:
    """Compares the names, shapes and types in a weights file with those of a network's parameters.

    A weight that is no part of such a network is only logged.
    """
    kind = encoder_kind(config)
    needed = {_stored(kind, name): shape for name, shape in config.parameter_shapes().items()}
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
            fault = "is missing"
            for pickled in part.parent.glob("pytorch_model*.bin"):
                fault = (
                    f"is missing; {pickled.name} is there, but nothing is unpickled here: save "
                    "the model as safetensors"
                )
            raise CheckpointError(part, fault)
        try:
            with safetensors.safe_open(part, framework="np") as file:
                for stored in file.keys():  # noqa: SIM118
                    name, item = _modern(stored), file.get_slice(stored)
                    if name in found:
                        raise CheckpointError(part, f"holds {shorten(name)}, as another name does")
                    found[name] = tuple(item.get_shape()), item.get_dtype()
        except (safetensors.SafetensorError, OSError) as error:
            raise CheckpointError(part, f"is damaged or cut short: {error}") from error
    return found


def read_weights(path: Path, config: NetworkConfig, sha256: str) -> MappedWeights:
    """Maps the parameters of a network, if their file still has this digest and all are finite."""
    maps = _map(path)  # one: the digest and the weights come from the same bytes
    hasher = hashlib.sha256()
    for each in maps:
        hasher.update(each)
    if (found := hasher.hexdigest()) != sha256:
        raise CheckpointError(
            path,
            f"is version {found[:VERSION_LENGTH]} now, and was {sha256[:VERSION_LENGTH]} when it "
            "was checked: start again",
        )
    stored = _arrays(maps)
    theirs = {name: _stored(encoder_kind(config), name) for name in config.parameter_shapes()}
    read = MappedWeights({name: _finite(stored[x], path, x) for name, x in theirs.items()})
    read.maps = maps
    return read


def _arrays(maps: Iterable[mmap.mmap]) -> dict[str, NDArray[Any]]:
    """Finds the weights in mapped files, by the names that they have there."""
    found: dict[str, NDArray[Any]] = {}
    for content in maps:
        start = 8 + int.from_bytes(content[:8], "little")
        for name, entry in json.loads(content[8:start]).items():
            if name == "__metadata__" or entry["dtype"] not in _FLOATS:
                continue
            begin, end = entry["data_offsets"]
            kind = np.dtype(_FLOATS[entry["dtype"]])
            flat = np.frombuffer(content, kind, (end - begin) // kind.itemsize, start + begin)
            found[_modern(name)] = flat.reshape(entry["shape"])
    return found


def _finite(weight: NDArray[Any], path: Path, name: str) -> NDArray[Any]:
    """Returns a weight in float16 as it is, any other one in float32."""
    if weight.dtype == np.uint16:
        weight = (weight.astype(np.uint32) << 16).view(np.float32)
    elif weight.dtype == np.float64:
        with np.errstate(over="ignore"):  # a number can be too large for float32
            weight = weight.astype(np.float32)
    if not np.isfinite(weight).all():
        raise CheckpointError(path, f"{name} holds values that are not finite float32 numbers")
    return weight


def _modern(name: str) -> str:
    for old, new in _OLD_ENDINGS.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def save_weights(
    path: Path,
    weights: "Mapping[str, Tensor]",
    kind: Kind | None = BERT,
    *,
    dtype: "torch.dtype | None",
) -> None:
    """Writes the parameters of a network."""
    import safetensors.torch

    stored = {
        _stored(kind, name): weight.detach().to("cpu", dtype=dtype).contiguous()
        for name, weight in weights.items()
    }
    # Only the owner may read a file of save_file, but the service runs as another user.
    path.write_bytes(safetensors.torch.save(stored, metadata={"format": "pt"}))


def read_encoder_weights(
    path: Path, fresh: Weights, kind: Kind = BERT, *, classes: Mapping[int, int] | None = None
) -> tuple[Weights, list[str]]:
    """Reads the weights of a pretrained encoder; a head that does not fit keeps its fresh weights.

    Args:
        path: of any network of this kind, with or without the kind's prefix, and a head.
        fresh: the parameters of the network, float32.
        classes: rows of the last layer to read, as numbers of classes of the network, and of the
            file; None: all, if there are as many.

    Returns:
        The parameters, and the names of those that were not read, or not in full. What is damaged,
        missing, misshapen or not finite is a CheckpointError.
    """
    shapes = {name: shape for name, (shape, _) in _header(path).items()}
    is_bare = not any(name.startswith(kind.prefix) for name in shapes)
    stored = _arrays(_map(path))
    read: dict[str, NDArray[Any]] = {}
    kept: list[str] = []
    for name, parameter in fresh.items():
        theirs = kind.stored_name(name)
        theirs = theirs.removeprefix(kind.prefix) if is_bare else theirs
        shape = shapes.get(theirs)
        rows = classes if name.startswith("classifier.") else None
        if rows is None and shape == parameter.shape:
            read[name] = _finite(stored[theirs], path, theirs)
        elif (
            (rows and shape is not None)
            and shape[1:] == parameter.shape[1:]
            and max(rows.values()) < shape[0]
        ):
            whole = _finite(stored[theirs], path, theirs)
            read[name] = parameter.copy()
            read[name][list(rows)] = whole[list(rows.values())]
            if len(rows) < len(parameter):
                kept.append(name)
        elif name.startswith(("classifier.", "pooler.")):
            kept.append(name)
        else:
            fault = "is missing" if shape is None else f"has shape {shape}"
            raise CheckpointError(path, f"{theirs} {fault}, the network needs {parameter.shape}")
    return {**fresh, **read}, kept


def _some(names: list[str]) -> str:
    shown = ", ".join(map(shorten, names[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
