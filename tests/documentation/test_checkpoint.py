"""docs/reference/checkpoint.md and python.md say what `model` reads, writes and raises."""

from pathlib import Path
from typing import get_args

import model.errors
from model.checkpoint.baseline import Baseline
from model.checkpoint.manifest import DataSource, Manifest, Metric, Precision, PrecisionSet
from model.checkpoint.thresholds import Threshold, Thresholds
from model.errors import InputError, ModelError
from model.network.config import Activation
from tests.builders import tiny_checkpoint
from tests.documentation.markdown import REFERENCE, code, codes, rows, sections

PAGE = REFERENCE / "checkpoint.md"
PYTHON = REFERENCE / "python.md"


def test_every_file_of_a_folder_is_described(tmp_path: Path) -> None:
    written = {file.name for file in tiny_checkpoint(tmp_path / "tiny").iterdir()}

    assert {code(file) for file, _ in rows(PAGE, "file")} == written


def test_every_field_of_the_manifest_is_described() -> None:
    table = {code(name): (code(default), codes(words)) for name, default, words in _fields()}

    assert {name: default for name, (default, _) in table.items()} == {
        name: "required"
        if field.is_required()
        else _shown(field.get_default(call_default_factory=True))
        for name, field in Manifest.model_fields.items()
    }
    assert table["training_data"][1] == list(DataSource.model_fields)
    assert table["metrics"][1] == list(Metric.model_fields)
    assert table["precision"][1] == list(Precision.model_fields)
    assert table["baseline"][1] == list(Baseline.model_fields)
    assert table["thresholds"][1] == list(Thresholds.model_fields)


def test_every_field_of_a_record_is_described() -> None:
    for header, kind in (
        ("of a record", Precision),
        ("of a set", PrecisionSet),
        ("of the baseline", Baseline),
        ("of the thresholds", Thresholds),
        ("of a threshold", Threshold),
    ):
        documented = [name for field, _ in rows(PAGE, "field", header) for name in codes(field)]
        assert documented == list(kind.model_fields)


def test_every_activation_is_named() -> None:
    assert (
        f"({', '.join(f'`{name}`' for name in get_args(Activation))})"
        in sections(PAGE)["What is served"]
    )


def test_every_error_is_described() -> None:
    raised = {
        name
        for name, kind in vars(model.errors).items()
        if isinstance(kind, type) and issubclass(kind, ModelError)
    }

    documented = {code(name) for name, _ in rows(PYTHON, "error", "when")}
    assert documented == raised - {ModelError.__name__, InputError.__name__}


def _fields() -> list[tuple[str, ...]]:
    return rows(PAGE, "field", "default")


def _shown(default: object) -> str:
    if default is None:
        return "none"
    return str(default) if isinstance(default, int | float) else "empty"
