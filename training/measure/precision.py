"""Compares a type of fewer bits with float32 on the same files, for the record of a checkpoint.

Legend: N texts.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from model.checkpoint.manifest import Precision, PrecisionSet
from model.checkpoint.opening import Checkpoint
from model.checkpoint.precision import judge
from model.checkpoint.record_types import LONGEST_NAME
from model.predictor import ModelInfo
from training.device import processor
from training.errors import RecipeError
from training.measure.evaluate import Measured


def set_names(files: Iterable[Path], *, others: Sequence[str] = ()) -> list[str]:
    """Names the set of each file: its folder and its name, without endings.

    Args:
        files: of labelled text.
        others: names of sets that are no files; they come first.

    Raises:
        RecipeError: a name cannot be recorded, or two are the same.
    """
    names = list(others)
    for file in files:
        stem = file.name.partition(".")[0] or file.name
        name = "/".join((*file.parts[-2:-1], stem)).removeprefix("//")
        if not name.isprintable() or len(name) > LONGEST_NAME:
            raise RecipeError(
                f"a set would be recorded as {name!r}, which has {len(name)} characters: must be "
                f"printable, with at most {LONGEST_NAME}; rename the file"
            )
        if name in names:
            raise RecipeError(
                f"two files would be recorded as {name}: give one of them another name or folder"
            )
        names.append(name)
    return names


def make_record(
    checkpoint: Checkpoint,
    names: Sequence[str],
    exact: Sequence[Measured],
    rounded: Sequence[Measured],
    info: ModelInfo,
) -> Precision:
    """Makes the record of a type.

    Args:
        checkpoint: whose weights were measured.
        names: of the sets.
        exact: what was measured of each in float32.
        rounded: what was measured of each in the type, on the same rows.
        info: of the model in the type.
    """
    return Precision.model_validate(
        {
            "dtype": info.dtype,
            "weights_sha256": checkpoint.weights_sha256,
            "processor": processor(),
            "torch": torch.__version__,
            "sets": [_compare(*each) for each in zip(names, exact, rounded, strict=True)],
        }
    )


def _compare(name: str, exact: Measured, rounded: Measured) -> PrecisionSet:
    exact_report, report = exact.report, rounded.report
    was, is_right = exact.scores.correct, rounded.scores.correct  # [N]
    return PrecisionSet(
        name=name,
        rows=report["rows"],
        accuracy=report["accuracy"],
        log_loss=report["log_loss"],
        float32_accuracy=exact_report["accuracy"],
        float32_log_loss=exact_report["log_loss"],
        lost=int((was & ~is_right).sum()),
        gained=int((is_right & ~was).sum()),
    )


def record_to_text(record: Precision) -> str:
    """Formats a record for people, with what `auto` makes of it.

    Returns:
        Lines, each ended.
    """
    width = max(len(one.name) for one in record.sets)
    lines = [f"{record.dtype} beside float32"]
    lines += [
        f"  {one.name:<{width}}  {one.accuracy:.2%} ({one.float32_accuracy:.2%}) of {one.rows:,}, "
        f"log-loss {one.log_loss:.4f} ({one.float32_log_loss:.4f}), "
        f"{one.lost:,} lost, {one.gained:,} gained"
        for one in record.sets
    ]
    if record.dtype == "int8":
        verdict = judge(record.dtype, [record])
        may = "may" if verdict.allowed else "does not"
        lines.append(f"  auto {may} choose it where there is no bfloat16: {verdict.reason}")
    return "\n".join(lines) + "\n"
