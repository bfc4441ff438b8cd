"""The state of an interrupted run: written whole, and read only where it is sound and fits."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import model.atomic
from tests.matching import exactly
from training.errors import ResumeError
from training.fit import state
from training.measure.history import Measurement

IDENTITY = {"seed": 1, "threads": 2, "training_rows": "a" * 64}
HISTORY = [Measurement(5, 1, 0.7, 0.5, 0.1 + 0.2, 0.6, 1e-3, 0.123)]


def position(step: int = 7) -> state.TrainerState:
    return state.TrainerState(
        step=step,
        loss_sum=1 / 3,
        correct=3,
        seen=4,
        best_epoch=1,
        seconds=0.5,
        history=list(HISTORY),
    )


def tensors(value: float = 1.0) -> dict[str, Tensor]:
    return {
        "weights/a": torch.full((2, 3), value),
        "optimizer/0.step": torch.tensor(7.0),
        "best/b": torch.arange(6, dtype=torch.bfloat16).reshape(3, 2).T,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "run" / "state"
    state.save_state(place, position(), tensors(), IDENTITY)
    return place


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_read_is_what_was_written(folder: Path) -> None:
    read, read_tensors = state.load_state(folder, IDENTITY)
    assert read == position()
    assert read_tensors.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert read_tensors[name].dtype == tensor.dtype
        assert torch.equal(read_tensors[name], tensor)


@pytest.mark.parametrize("failing", [1, 2], ids=["first rename", "second rename"])
def test_ended_at_a_rename_the_state_before_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    rename, calls = Path.rename, 0

    def rename_until_killed(path: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls >= failing:
            raise OSError(28, "No space left on device")
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(model.atomic, "_exchange", lambda *_: False)  # as not on Linux
        patch.setattr(Path, "rename", rename_until_killed)
        with pytest.raises(OSError, match="No space left on device"):
            state.save_state(folder, position(step=8), tensors(2.0), IDENTITY)
    assert folder.exists() is (failing == 1)
    assert state.has_state(folder)

    read, read_tensors = state.load_state(folder, IDENTITY)
    assert read == position(step=7)
    assert torch.equal(read_tensors["weights/a"], tensors()["weights/a"])

    state.save_state(folder, position(step=9), tensors(3.0), IDENTITY)
    assert state.load_state(folder, IDENTITY)[0].step == 9
    assert names(folder.parent) == ["state"]


def test_a_state_nested_too_deep_is_damaged(folder: Path) -> None:
    (folder / "position.json").write_text("[" * 100_000, encoding="utf-8")
    assert state.step_of_state(folder) is None
    with pytest.raises(ResumeError, match="the state is damaged"):
        state.load_state(folder, IDENTITY)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("file", "damage", "fault"),
    [
        ("tensors.safetensors", flip, "does not match its SHA-256 in position.json"),
        ("tensors.safetensors", Path.unlink, "No such file or directory"),
        ("position.json", cut, "Expecting"),
        ("position.json", flip, "position.json does not match its own SHA-256"),
    ],
)
def test_a_damaged_state_is_refused(
    folder: Path, file: str, damage: Callable[[Path], None], fault: str
) -> None:
    damage(folder / file)
    with pytest.raises(ResumeError) as refused:
        state.load_state(folder, IDENTITY)
    message = str(refused.value)
    assert message.startswith(f"{folder}: the state is damaged (")
    assert fault in message
    assert message.endswith("); start again with --overwrite instead of --resume")


@pytest.mark.parametrize(
    ("now", "difference"),
    [
        ({**IDENTITY, "seed": 2, "threads": 1}, "seed: 1 then, 2 now; threads: 2 then, 1 now"),
        ({"threads": 2, "training_rows": "a" * 64}, "seed: 1 then, None now"),
        ({**IDENTITY, "init_from": "bert"}, "init_from: None then, bert now"),
        (
            {**IDENTITY, "training_rows": "b" * 64},
            f"training_rows: {'a' * 26}…{'a' * 13} then, {'b' * 26}…{'b' * 13} now",
        ),
    ],
)
def test_a_state_of_another_run_is_refused(
    folder: Path, now: dict[str, object], difference: str
) -> None:
    message = f"{folder}: the interrupted run was another one: {difference}"
    with pytest.raises(ResumeError, match=exactly(message)):
        state.load_state(folder, now)
