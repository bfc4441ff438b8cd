"""Makes the tables of the model cards from what was measured on the checkpoints."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from model import open_checkpoint

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "model-card"
CHECKPOINTS = ROOT / "checkpoints"

Rows = Iterator[Sequence[str]]


def code(value: object) -> str:
    """A value as a code span."""
    return f"`{value}`"


def read_report(page: Path, name: str = "") -> dict[str, Any]:
    """What `headlight-train evaluate --json` wrote about the checkpoint of a page."""
    name = name or ("two-classes" if page.parent.name == "two-classes" else "evaluation")
    report: dict[str, Any] = json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8"))
    return report


def _folder(page: Path) -> Path:
    return CHECKPOINTS / ("two-classes" if page.parent.name == "two-classes" else "default")


def _set(file: dict[str, Any]) -> str:
    return code("/".join(Path(file["file"]).parts[-2:]).partition(".")[0])


def _data(page: Path) -> Iterator[str]:
    manifest = open_checkpoint(_folder(page)).manifest
    rows = {source.file: source.rows for source in manifest.training_data}
    for source in manifest.recipe["plan"]["sources"].values():
        name = code(source["file"].removesuffix(".tsv.gz"))
        yield f"{name}, {rows[source['file']]:,} rows: {source['origin']}; {source['licence']}"


def _figures(name: str, page: Path) -> Rows:
    yield "set", "rows", "accuracy (95 %)", "macro F1", "log-loss", "ECE (uncalibrated)"
    for file in read_report(page, name)["files"]:
        low, high = file["accuracy_interval"]
        yield (
            *(_set(file), f"{file['rows']:,}"),
            f"{file['accuracy']:.2%} ({100 * low:.2f}-{100 * high:.2f})",
            *(f"{file['macro_f1']:.4f}", f"{file['log_loss']:.4f}"),
            f"{file['ece']:.2%} ({file['ece_uncalibrated']:.2%})",
        )


def _probes(test: str, page: Path) -> Iterator[str]:
    for probe in read_report(page)["probes"]:
        if probe["test"] == test:
            line = f"{probe['name']}: {probe['passed'] / probe['rows']:.1%} of {probe['rows']:,}"
            line += "" if probe["shift"] is None else f", {probe['shift']:.3f}"
            yield line if probe["lean"] is None else f"{line}, {probe['lean']:+.3f}"


TABLES: dict[str, Callable[[str, Path], Rows]] = {
    "figures": _figures,
}
LISTS: dict[str, Callable[[str, Path], Iterator[str]]] = {
    "data": lambda _argument, page: _data(page),
    "probes": _probes,
}
