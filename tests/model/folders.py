"""Reading and changing the JSON files of a checkpoint folder."""

import json
from pathlib import Path
from typing import Any

from model.files import CONFIG, MANIFEST, WEIGHTS

FILES = [CONFIG, MANIFEST, WEIGHTS, "tokenizer.json", "tokenizer_config.json"]


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def edit(path: Path, **changes: object) -> None:
    write(path, {**read(path), **changes})
