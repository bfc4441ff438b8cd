"""Fingerprints a run: what a resumed run must share with it to end in the same weights."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from model.files import TOKENIZER_FILES, digest
from training.data.dataset import Dataset
from training.device import Accelerator
from training.distributed import current
from training.errors import ResumeError
from training.fit.recipe import Recipe

_THREADS = "threads"  # None for several processes
_TOKENIZER = "init_from_tokenizer"
_SHOWN = 40


def run_fingerprint(
    recipe: Recipe,
    origin: Mapping[str, str],
    accelerator: Accelerator,
    datasets: Mapping[str, Dataset],
    init_from: Path | None = None,
) -> dict[str, Any]:
    """Collects what decides the weights of a run, which may begin with those of a folder."""
    first, *_ = datasets.values()
    return {
        **recipe.model_dump(mode="json"),
        **origin,
        **({} if init_from is None else {_TOKENIZER: _tokenizer_digest(init_from)}),
        "device": accelerator.device.type,
        "bfloat16": accelerator.bfloat16,
        # The sums of several processes differ in their last digits, whatever their threads.
        _THREADS: torch.get_num_threads() if current().count == 1 else None,
        "labels": list(first.labels),
        **{
            f"{name}_data": [source.sha256 for source in dataset.sources]
            for name, dataset in datasets.items()
        },
        # The same files may have been read by other columns.
        **{f"{name}_rows": _rows_digest(dataset) for name, dataset in datasets.items()},
    }


def _tokenizer_digest(folder: Path) -> str:
    paths = (folder / name for name in TOKENIZER_FILES)
    return digest(*(path for path in paths if path.is_file()))


def _rows_digest(dataset: Dataset) -> str:
    rows = json.dumps([dataset.texts, dataset.label_ids]).encode()
    return hashlib.sha256(rows).hexdigest()


def check_fingerprint(path: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses to resume another run."""
    different = [name for name in {**now, **then} if then.get(name) != now.get(name)]
    if _TOKENIZER not in then and _TOKENIZER in different:
        different.remove(_TOKENIZER)  # a release that did not record it left the run
    if None in (then.get(_THREADS), now.get(_THREADS)) and _THREADS in different:
        different.remove(_THREADS)  # one of the runs had several processes
    if different:
        changes = "; ".join(
            f"{name}: {_shown(then.get(name))} then, {_shown(now.get(name))} now"
            for name in different
        )
        raise ResumeError(f"{path}: the interrupted run was another one: {changes}")


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
