"""Where a run is logged to, as it is typed."""

import pytest

from tests.programs import UsageFault
from training.__main__ import main
from training.tracking.logs import Target, parse_target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("tensorboard:runs/mine", Target("tensorboard", "runs/mine")),
        ("mlflow", Target("mlflow", "")),
        ("mlflow:sqlite:///mlflow.db", Target("mlflow", "sqlite:///mlflow.db")),
    ],
)
def test_a_target_is_a_tracker_and_its_place(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("wandb", "must be tensorboard:DIR or mlflow:URI, got 'wandb'"),
        (
            "tensorbord:runs",
            "must be tensorboard:DIR or mlflow:URI, got 'tensorbord:runs'; did you mean "
            "tensorboard?",
        ),
        ("tensorboard:", "must have a folder after the colon, got 'tensorboard:'"),
        ("mlflow:", "must have a URI after the colon, got 'mlflow:'"),
    ],
)
def test_another_target_is_refused(text: str, told: str, usage_fault: UsageFault) -> None:
    expected = f"headlight-train fit: argument --log-to: {told}; see headlight-train fit --help\n"
    assert usage_fault(main, "fit", "rows.tsv", "--output", "out", "--log-to", text) == expected
