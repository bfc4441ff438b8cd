"""From what was measured on the default checkpoint to the tables of its card, and into the pages.

After a new checkpoint, `python -m tests.documentation.model_card` writes them.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from model import open_checkpoint
from tests.documentation.markdown import README, ROOT

CHECKPOINT = ROOT / "checkpoints" / "default"
CARD = ROOT / "docs" / "model-card.md"
PAGES = (CARD, CHECKPOINT / "README.md", README)
REPORT = ROOT / "docs" / "model-card" / "evaluation.json"

_PLACE = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_PROBE_COLUMNS: dict[str, list[str]] = {
    "label": [],
    "change": ["mean shift"],
    "group": ["mean shift", "lean"],
}


def report() -> dict[str, Any]:
    """What `headlight-train evaluate --probe --json` wrote of the checkpoint."""
    content: dict[str, Any] = json.loads(REPORT.read_text(encoding="utf-8"))
    return content


def tables_in(page: Path) -> dict[str, str]:
    """The tables of a page by their names, as they stand there."""
    text = page.read_text(encoding="utf-8")
    return {match[2]: text[match.end(1) : match.start(3)] for match in _PLACE.finditer(text)}


def _table(*lines: Sequence[str]) -> str:
    head, *rest = lines
    rule = ["---"] * len(head)
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rest))


def _set(path: str) -> str:
    return "/".join(Path(path).parts[-2:]).partition(".")[0]


def _data() -> Iterator[Sequence[str]]:
    yield "source", "file", "rows", "what it is", "licence"
    manifest = open_checkpoint(CHECKPOINT).manifest
    sources = manifest.recipe["plan"]["sources"]
    rows = {source.file: source.rows for source in manifest.training_data}
    for name, source in sources.items():
        yield (
            f"`{name}`",
            f"`{source['file'].removesuffix('.tsv.gz')}`",
            f"{rows[source['file']]:,}",
            source["origin"],
            source["licence"],
        )


def _recorded() -> Iterator[Sequence[str]]:
    """What the checkpoint says of itself, as the README has it."""
    yield "set", "texts", "accuracy", "95 % interval", "log-loss", "ECE"
    for metric in open_checkpoint(CHECKPOINT).manifest.metrics:
        low, high = metric.interval
        yield (
            f"`{metric.name}`",
            f"{metric.rows:,}",
            f"{metric.accuracy:.1%}",
            f"{low:.1%} to {high:.1%}",
            f"{metric.log_loss:.3f}",
            f"{metric.ece:.3f}",
        )


def _precision() -> Iterator[Sequence[str]]:
    """What the checkpoint says of int8."""
    yield "set", "rows", "float32", "int8", "lost", "gained", "log-loss"
    (record,) = open_checkpoint(CHECKPOINT).manifest.precision
    for one in record.sets:
        yield (
            f"`{one.name}`",
            f"{one.rows:,}",
            f"{one.float32_accuracy:.2%}",
            f"{one.accuracy:.2%}",
            f"{one.lost}",
            f"{one.gained}",
            f"{one.float32_log_loss:.4f}, then {one.log_loss:.4f}",
        )


def _figures() -> Iterator[Sequence[str]]:
    yield "set", "rows", "accuracy", "95 % interval", "macro F1", "log-loss", "cut short"
    for file in report()["files"]:
        low, high = file["accuracy_interval"]
        yield (
            f"`{_set(file['file'])}`",
            f"{file['rows']:,}",
            f"{file['accuracy']:.2%}",
            f"{low:.2%} to {high:.2%}",
            f"{file['macro_f1']:.4f}",
            f"{file['log_loss']:.4f}",
            f"{file['truncated']:,}",
        )


def _calibration() -> Iterator[Sequence[str]]:
    yield "set", "ECE with the temperature", "ECE without"
    files = report()["files"]
    for file in files:
        yield f"`{_set(file['file'])}`", f"{file['ece']:.2%}", f"{file['ece_uncalibrated']:.2%}"
    means = [sum(file[key] for file in files) / len(files) for key in ("ece", "ece_uncalibrated")]
    yield "mean", f"{means[0]:.2%}", f"{means[1]:.2%}"


def _lengths() -> Iterator[Sequence[str]]:
    yield "set", "tokens", "rows", "accuracy"
    for file in report()["files"]:
        for part in file["by_length"]:
            low, high = part["tokens"]
            yield (
                f"`{_set(file['file'])}`",
                f"{low} to {high}",
                f"{part['rows']:,}",
                f"{part['accuracy']:.1%}",
            )


def _probes(test: str, third: str) -> Iterator[Sequence[str]]:
    yield "what is asked", "rows", third, *_PROBE_COLUMNS[test]
    for probe in report()["probes"]:
        if probe["test"] != test:
            continue
        shift = [] if probe["shift"] is None else [f"{probe['shift']:.3f}"]
        shift += [] if probe["lean"] is None else [f"{probe['lean']:+.3f}"]
        share = probe["passed"] / probe["rows"]
        yield probe["name"], f"{probe['rows']:,}", f"{share:.1%}", *shift


TABLES: dict[str, Callable[[], Iterator[Sequence[str]]]] = {
    "data": _data,
    "recorded": _recorded,
    "figures": _figures,
    "precision": _precision,
    "calibration": _calibration,
    "lengths": _lengths,
    "behaviours": lambda: _probes("label", "right"),
    "changes": lambda: _probes("change", "same label"),
    "groups": lambda: _probes("group", "same label"),
}


def table(name: str) -> str:
    """A table as Markdown, from what was measured."""
    return _table(*TABLES[name]())


def _rewrite(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    page.write_text(
        _PLACE.sub(lambda match: match[1] + table(match[2]) + match[3], text), encoding="utf-8"
    )


if __name__ == "__main__":
    for each in PAGES:
        _rewrite(each)
