"""Fingerprints a run: what a resumed run must share with it to end in the same weights."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from model.errors import shorten
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
    files = [init_from / name for name in TOKENIZER_FILES] if init_from else []
    return {
        **recipe.model_dump(mode="json"),
        **origin,
        **({} if init_from is None else {_TOKENIZER: digest(*filter(Path.is_file, files))}),
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
        **{
            f"{name}_rows": sha256(json.dumps([rows.texts, rows.label_ids]).encode()).hexdigest()
            for name, rows in datasets.items()
        },
    }


def check_fingerprint(path: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses to resume another run."""
    different = [name for name in {**now, **then} if then.get(name) != now.get(name)]
    if _TOKENIZER not in then and _TOKENIZER in different:
        different.remove(_TOKENIZER)  # a release that did not record it left the run
    if None in (then.get(_THREADS), now.get(_THREADS)) and _THREADS in different:
        different.remove(_THREADS)  # one of the runs had several processes
    if different:
        changes = "; ".join(
            f"{name}: {shorten(str(then.get(name)), _SHOWN)} then, "
            f"{shorten(str(now.get(name)), _SHOWN)} now"
            for name in different
        )
        raise ResumeError(f"{path}: the interrupted run was another one: {changes}")
