"""Writes the tables of the documentation that follow from code, settings and measurements.

    python -m tools.tables            writes them into the pages
    python -m tools.tables --check    names the pages that are not as generated

A table stands in a page between `<!-- table: NAME -->` and `<!-- end -->`.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import Metric
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import model
import model.errors
import scoring.__main__
import training.__main__
from service.errors import ALL_ERRORS
from service.metrics import AnswerCounts, Metrics
from service.routes import request_schemas
from service.settings import PREFIX, Settings
from training.fit.recipe import Recipe, load_recipe, presets

ROOT = Path(__file__).parents[1]
CHECKPOINTS = ROOT / "checkpoints"
FIGURES = ROOT / "docs" / "model-card"
Rows = Iterator[Sequence[str]]

_PLACE = re.compile(r"(<!-- table: ([\w /-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_DEFAULT = re.compile(r" *\(default: (.*?)\)$")
_BASE = "fit"


def pages() -> list[Path]:
    """Every Markdown page of the project."""
    folders = [ROOT / name for name in ("docs", "checkpoints", "client", "deploy")]
    return sorted([*ROOT.glob("*.md"), *(page for x in folders for page in x.rglob("*.md"))])


def generated(page: Path) -> str:
    """The text of a page with its tables as they should be."""

    def replaced(place: re.Match[str]) -> str:
        name, _, argument = place[2].partition(" ")
        if name in LISTS:
            text = "".join(f"- {line}\n" for line in LISTS[name](argument, page))
        else:
            text = _table(TABLES[name](argument, page))
        return place[1] + text + place[3]

    return _PLACE.sub(replaced, page.read_text(encoding="utf-8"))


def tables_in(page: Path) -> list[str]:
    """The names of the tables of a page."""
    return [place[2] for place in _PLACE.finditer(page.read_text(encoding="utf-8"))]


def code(value: object) -> str:
    """A value as a code span."""
    return f"`{value}`"


def _table(rows: Rows) -> str:
    head, *rest = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rest))


def _words(text: str | None) -> str:
    return (text or "").rstrip(".").replace("*", r"\*")


# Settings and options


def _settings(_argument: str, _page: Path) -> Rows:
    yield "setting", "default", ""
    for name, field in Settings.model_fields.items():
        yield code(PREFIX + name.upper()), _value(field), _words(field.description)


def _value(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is None:
        return "none"
    if isinstance(value, bool):
        return code(json.dumps(value))
    return code(f"{value:g}" if isinstance(value, float) else value)


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command, by its name in the pages; `serve` has the settings."""
    (commands,) = (
        action
        for action in training.__main__._parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return {**commands.choices, "score": scoring.__main__._parser()}


def _options(command: str, _page: Path) -> Iterator[str]:
    """The options of a command. Those that `fit` has in the same form follow in one line."""
    found = {name: dict(_options_of(parser)) for name, parser in parsers().items()}
    base = {} if command == _BASE else found[_BASE]
    shared = []
    for option, (default, text) in found[command].items():
        if base.get(option) == (default, text):
            shared.append(code(option))
        else:
            yield f"{code(option)} ({default}): {text}"
    if shared:
        yield f"as for `{_BASE}`: {', '.join(shared)}"


def _options_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, tuple[str, str]]]:
    formatter = parser._get_formatter()
    for action in parser._actions:
        if not action.option_strings or action.dest in ("help", "version"):
            continue
        text = formatter._expand_help(action)
        found = _DEFAULT.search(text)
        if action.choices:
            values = ", ".join(code(choice) for choice in action.choices)
            text = f"{values}: {text}"
        yield action.option_strings[-1], (_default(action, found), _words(_DEFAULT.sub("", text)))


def _default(action: argparse.Action, found: re.Match[str] | None) -> str:
    if action.required:
        return "required"
    if found is not None:
        shown = found[1]
        return "the preset's" if ", course " in shown else shown
    if action.nargs == 0:
        return "off"
    value = action.default
    if isinstance(value, tuple):
        return code("/".join(map(str, value)))
    return "none" if value in (None, []) else code(value)


def _presets(_argument: str, _page: Path) -> Rows:
    """The fields in which presets differ, and in one row those that are alike in all."""
    recipes = {name: load_recipe(name, {}) for name in presets()}
    yield "field", *map(code, recipes)
    alike = []
    for field in Recipe.model_fields:
        values = [getattr(recipe, field) for recipe in recipes.values()]
        if any(isinstance(value, BaseModel) for value in values):
            continue
        shown = [
            "by the rows" if each.is_open(field) else json.dumps(getattr(each, field)).strip('"')
            for each in recipes.values()
        ]
        if len(set(shown)) > 1:
            yield code(field), *shown
        else:
            alike.append(f"{code(field)} {shown[0]}")
    yield "all", ", ".join(alike), *[""] * (len(recipes) - 1)


# The interface


def _names(_argument: str, _page: Path) -> Iterator[str]:
    """What the package `model` exports: functions first."""
    functions = [name for name in model.__all__ if name[0].islower()]
    yield f"functions: {', '.join(map(code, functions))}"
    types = [name for name in model.__all__ if name not in functions]
    yield f"types: {', '.join(map(code, types))}"


def _errors(_argument: str, _page: Path) -> Iterator[str]:
    for name, kind in vars(model.errors).items():
        if isinstance(kind, type) and issubclass(kind, model.errors.ModelError):
            yield f"{code(name)}: {_words((kind.__doc__ or '').splitlines()[0])}"


def _fields(name: str, _page: Path) -> Rows:
    yield "field", "default", ""
    for field, info in getattr(request_schemas, name).model_fields.items():
        yield code(field), _value(info), _words(info.description)


def _problems(_argument: str, _page: Path) -> Rows:
    yield "`type`", "status", "when"
    for error in ALL_ERRORS:
        yield code(error.type), str(error.status), error.when


def _metrics(_argument: str, _page: Path) -> Iterator[str]:
    answers = AnswerCounts(model.open_checkpoint(CHECKPOINTS / "default"))
    metrics = Metrics([("/predict", "POST", [200])], answers)
    metrics.model.labels("default", "1234", "cpu", "float32")
    for family in metrics.registry.collect():
        if family.name.startswith("headlight_process_"):
            continue  # those of every Prometheus client, and only on Linux
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(code(label) for label in _labels(metrics, family))
        by = f" by {labels}" if labels else ""
        yield f"{code(name)} ({family.type}{by}): {_words(family.documentation)}"


def _labels(metrics: Metrics, family: Metric) -> Sequence[str]:
    collector = metrics.registry._names_to_collectors.get(family.name)
    declared: Sequence[str] | None = getattr(collector, "_labelnames", None)
    return declared if declared is not None else list(family.samples[0].labels)


# Figures of the model cards


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
    manifest = model.open_checkpoint(_folder(page)).manifest
    rows = {source.file: source.rows for source in manifest.training_data}
    for source in manifest.recipe["sources"]:
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


def _kinds(_argument: str, _page: Path) -> Iterator[str]:
    """How many sentences of each kind are right, as `recipes.default` counts them."""
    counts = json.loads((FIGURES / "kinds.json").read_text(encoding="utf-8"))
    yield "; ".join(f"{kind} {right}/{rows}" for kind, (right, rows) in counts["kinds"].items())


TABLES: dict[str, Callable[[str, Path], Rows]] = {
    "fields": _fields,
    "figures": _figures,
    "presets": _presets,
    "problems": _problems,
    "settings": _settings,
}
LISTS: dict[str, Callable[[str, Path], Iterator[str]]] = {
    "data": lambda _argument, page: _data(page),
    "errors": _errors,
    "kinds": _kinds,
    "metrics": _metrics,
    "names": _names,
    "options": _options,
    "probes": _probes,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the tables, or checks them; 1 if a page is not as generated."""
    parser = argparse.ArgumentParser(description="write the generated tables of the documentation")
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    check = parser.parse_args(arguments).check
    changed = {}
    for page in pages():
        text = generated(page)
        if text != page.read_text(encoding="utf-8"):
            changed[page] = text
    for page, text in changed.items():
        sys.stdout.write(f"{page.relative_to(ROOT)}\n")
        if not check:
            page.write_text(text, encoding="utf-8")
    return int(check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
