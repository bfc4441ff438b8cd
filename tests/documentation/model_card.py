"""Writes the tables of the cards from what was measured on the checkpoints.

After a new checkpoint, `python -m tests.documentation.model_card` writes them into the pages.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model import open_checkpoint
from tests.documentation.markdown import README, ROOT

_FIGURES = ROOT / "docs" / "model-card"


@dataclass(frozen=True)
class Card:
    """A checkpoint and what is told of it.

    Args:
        folder: of the checkpoint.
        report: what `headlight-train evaluate --probe --json` wrote of it.
        two_classes: the same with `--labels negative,positive`, of a checkpoint of three classes.
        pages: that have tables of it.
    """

    folder: Path
    report: Path
    pages: tuple[Path, ...]
    two_classes: Path | None = None


DEFAULT = Card(
    folder=ROOT / "checkpoints" / "default",
    report=_FIGURES / "evaluation.json",
    pages=(ROOT / "docs" / "model-card.md", ROOT / "checkpoints" / "default" / "README.md", README),
)
NEUTRAL = Card(
    folder=ROOT / "checkpoints" / "neutral",
    report=_FIGURES / "neutral.json",
    pages=(ROOT / "checkpoints" / "neutral" / "README.md",),
    two_classes=_FIGURES / "neutral-two-classes.json",
)
CARDS = (DEFAULT, NEUTRAL)

_PLACE = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_PROBE_COLUMNS: dict[str, list[str]] = {
    "label": [],
    "change": ["mean shift"],
    "group": ["mean shift", "lean"],
}


def read_report(path: Path) -> dict[str, Any]:
    """What `headlight-train evaluate --json` wrote."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
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


def _data(card: Card) -> Iterator[Sequence[str]]:
    yield "source", "file", "rows", "what it is", "licence"
    manifest = open_checkpoint(card.folder).manifest
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


def _recorded(card: Card) -> Iterator[Sequence[str]]:
    """What the checkpoint says of itself, as the README has it."""
    yield "set", "texts", "accuracy", "95 % interval", "log-loss", "ECE"
    for metric in open_checkpoint(card.folder).manifest.metrics:
        low, high = metric.interval
        yield (
            f"`{metric.name}`",
            f"{metric.rows:,}",
            f"{metric.accuracy:.1%}",
            f"{low:.1%} to {high:.1%}",
            f"{metric.log_loss:.3f}",
            f"{metric.ece:.3f}",
        )


def _precision(card: Card) -> Iterator[Sequence[str]]:
    """What the checkpoint says of int8."""
    yield "set", "rows", "float32", "int8", "lost", "gained", "log-loss"
    (record,) = open_checkpoint(card.folder).manifest.precision
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


def _figures(card: Card) -> Iterator[Sequence[str]]:
    yield from _figures_of(card.report)


def _two_classes(card: Card) -> Iterator[Sequence[str]]:
    assert card.two_classes is not None
    yield from _figures_of(card.two_classes)


def _figures_of(path: Path) -> Iterator[Sequence[str]]:
    yield "set", "rows", "accuracy", "95 % interval", "macro F1", "log-loss", "cut short"
    for file in read_report(path)["files"]:
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


def _classes(card: Card) -> Iterator[Sequence[str]]:
    """F1 of each class, and the recalls' mean, which the makers of the tweets compare by."""
    report = read_report(card.report)
    labels = report["labels"]
    yield "set", *(f"F1 of {label}" for label in labels), "macro F1", "mean recall"
    for file in report["files"]:
        recalls = [row[at] / sum(row) for at, row in enumerate(file["confusion"])]
        yield (
            f"`{_set(file['file'])}`",
            *(f"{file['f1'][label]:.1%}" for label in labels),
            f"{file['macro_f1']:.1%}",
            f"{sum(recalls) / len(recalls):.1%}",
        )
    macro = [file["macro_f1"] for file in report["files"]]
    yield "mean", *("" for _ in labels), f"{sum(macro) / len(macro):.1%}", ""


def _calibration(card: Card) -> Iterator[Sequence[str]]:
    yield "set", "ECE with the temperature", "ECE without"
    files = read_report(card.report)["files"]
    for file in files:
        yield f"`{_set(file['file'])}`", f"{file['ece']:.2%}", f"{file['ece_uncalibrated']:.2%}"
    means = [sum(file[key] for file in files) / len(files) for key in ("ece", "ece_uncalibrated")]
    yield "mean", f"{means[0]:.2%}", f"{means[1]:.2%}"


def _lengths(card: Card) -> Iterator[Sequence[str]]:
    yield "set", "tokens", "rows", "accuracy"
    for file in read_report(card.report)["files"]:
        for part in file["by_length"]:
            low, high = part["tokens"]
            yield (
                f"`{_set(file['file'])}`",
                f"{low} to {high}",
                f"{part['rows']:,}",
                f"{part['accuracy']:.1%}",
            )


def _probes(card: Card, test: str, third: str) -> Iterator[Sequence[str]]:
    yield "what is asked", "rows", third, *_PROBE_COLUMNS[test]
    for probe in read_report(card.report)["probes"]:
        if probe["test"] != test:
            continue
        shift = [] if probe["shift"] is None else [f"{probe['shift']:.3f}"]
        shift += [] if probe["lean"] is None else [f"{probe['lean']:+.3f}"]
        share = probe["passed"] / probe["rows"]
        yield probe["name"], f"{probe['rows']:,}", f"{share:.1%}", *shift


TABLES: dict[str, Callable[[Card], Iterator[Sequence[str]]]] = {
    "data": _data,
    "recorded": _recorded,
    "figures": _figures,
    "classes": _classes,
    "two-classes": _two_classes,
    "precision": _precision,
    "calibration": _calibration,
    "lengths": _lengths,
    "behaviours": lambda card: _probes(card, "label", "right"),
    "changes": lambda card: _probes(card, "change", "same label"),
    "groups": lambda card: _probes(card, "group", "same label"),
}


def table(card: Card, name: str) -> str:
    """A table as Markdown, from what was measured."""
    return _table(*TABLES[name](card))


def _rewrite(card: Card, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    page.write_text(
        _PLACE.sub(lambda match: match[1] + table(card, match[2]) + match[3], text),
        encoding="utf-8",
    )


if __name__ == "__main__":
    for each in CARDS:
        for path in each.pages:
            _rewrite(each, path)
