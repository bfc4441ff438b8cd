"""Reading and changing the JSON files of a checkpoint folder, and what is wrong with them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from safetensors.torch import save_file
from torch import Tensor

from model.files import CONFIG, INDEX, MANIFEST, WEIGHTS

FILES = [CONFIG, MANIFEST, WEIGHTS, "tokenizer.json", "tokenizer_config.json"]


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def edit(path: Path, **changes: object) -> None:
    write(path, {**read(path), **changes})


def faults(
    make: Callable[..., object], *content: object, **changes: object
) -> list[tuple[str, str]]:
    """Place and message of each fault that pydantic finds."""
    with pytest.raises(ValidationError) as caught:
        make(*content, **changes)
    return [
        (".".join(map(str, fault["loc"])), fault["msg"])
        for fault in caught.value.errors(include_url=False)
    ]


def in_parts(path: Path, weights: dict[str, Tensor], *, places: object = None) -> list[Path]:
    """Writes weights as transformers divides them."""
    files = [path.with_name(f"model-0000{number}-of-00002.safetensors") for number in (1, 2)]
    parts = [dict(list(weights.items())[start::2]) for start in (0, 1)]
    for file, part in zip(files, parts, strict=True):
        save_file(part, file)
    shown = {name: file.name for file, part in zip(files, parts, strict=True) for name in part}
    write(path.with_name(INDEX), {"weight_map": shown if places is None else places})
    path.unlink(missing_ok=True)
    return files
