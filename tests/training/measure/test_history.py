"""The history of a run on disk."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.measure.history import Measurement, read_history, write_history

ONE = Measurement(
    step=27,
    epoch=1,
    training_loss=0.7,
    training_accuracy=0.5,
    validation_loss=0.1 + 0.2,
    validation_accuracy=2 / 3,
    learning_rate=1e-3,
    seconds=0.123,
)
NUMBERS = st.floats(0.0, 1e9, allow_nan=False)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One place for many histories, each of which replaces the one before."""
    return tmp_path_factory.mktemp("run") / "history.jsonl"


@given(st.lists(st.builds(Measurement, *[st.integers(0)] * 2, *[NUMBERS] * 6), max_size=4))
def test_what_is_read_is_what_was_written(path: Path, history: list[Measurement]) -> None:
    write_history(history, path)

    assert read_history(path) == history


def test_the_history_before_stays_if_the_new_one_cannot_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_history([ONE], path)

    def fail(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("model.files.sync", fail)
    with pytest.raises(OSError, match="No space left on device"):
        write_history([ONE, ONE], path)
    assert read_history(path) == [ONE]
