"""Where a run is logged to, as it is typed."""

import pytest

from tests.programs import UsageFault
from training.__main__ import main


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
