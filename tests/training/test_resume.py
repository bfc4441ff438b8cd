"""A run that ends anywhere and goes on: the same weights, bit by bit, as one that never ended."""

import signal
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor

from model.cli.signals import Interruption
from tests.builders import tiny_network, tiny_tokenizer
from tests.training.tiny_runs import build_trainer
from training.fit.recipe import Recipe
from training.fit.rows import EncodedRows
from training.measure.history import Measurement

TEXTS = ["good film", "great cast", "a warm plot", "bad film", "poor cast", "a cold plot"]
STEPS_PER_EPOCH, EPOCHS = 3, 4
STEPS = STEPS_PER_EPOCH * EPOCHS


class KilledError(Exception):
    """Stands for a death that leaves no time to save anything."""


class Run:
    """A run in a folder, as a process of its own would begin or go on with it."""

    def __init__(self, folder: Path, *, average_decay: float) -> None:
        self.network = tiny_network()
        self.recorded: list[list[Measurement]] = []
        self.state_dir = folder / "state"
        tokenizer = tiny_tokenizer()
        rows = EncodedRows([tokenizer.encode(text) for text in TEXTS], [1, 1, 1, 0, 0, 0])
        recipe = {
            "batch_size": 2,
            "epochs": EPOCHS,
            "patience": EPOCHS,
            "learning_rate": 1e-2,
            "token_dropout": 0.2,
            "average_decay": average_decay,
        }
        self.trainer = build_trainer(
            self.network, rows, Recipe.model_validate(recipe), state_dir=self.state_dir
        )

    def resume_if_begun(self) -> None:
        if self.state_dir.exists():
            self.trainer.resume()

    def to_the_end(
        self, *, save_every: int = 1000, stop: Callable[[], int | None] = lambda: None
    ) -> list[Measurement]:
        def record(history: Sequence[Measurement]) -> None:
            self.recorded.append(list(history))

        return self.trainer.run(save_every=save_every, stop=stop, record=record)


def after(asked: int, end: Callable[[], int | None]) -> Callable[[], int | None]:
    """Lets a run go on until it has asked so many times whether to stop."""
    times = 0

    def stop() -> int | None:
        nonlocal times
        times += 1
        return end() if times > asked else None

    return stop


def die() -> int | None:
    raise KilledError


def timeless(history: Sequence[Measurement]) -> list[tuple[float, ...]]:
    """A history without its seconds, which are never the same."""
    return [astuple(replace(measured, seconds=0.0)) for measured in history]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[float, Run]:
    """Runs that never stopped, by their decay."""
    runs = {}
    for average_decay in (0.0, 0.7):
        run = Run(tmp_path_factory.mktemp("whole"), average_decay=average_decay)
        run.to_the_end()
        runs[average_decay] = run
    return runs


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one.keys() | other.keys())


@given(
    average_decay=st.sampled_from([0.0, 0.7]),
    save_every=st.integers(1, 5),
    deaths=st.lists(st.integers(0, STEPS), max_size=3),
)
@hypothesis_settings(max_examples=10)
def test_killed_at_any_steps(
    whole: dict[float, Run], average_decay: float, save_every: int, deaths: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for steps in deaths:
            run = Run(folder, average_decay=average_decay)
            run.resume_if_begun()
            try:
                run.to_the_end(save_every=save_every, stop=after(steps, die))
            except KilledError:
                continue
            break
        run = Run(folder, average_decay=average_decay)
        run.resume_if_begun()
        history = run.to_the_end(save_every=save_every)

    expected = whole[average_decay]
    assert same(run.network.state_dict(), expected.network.state_dict())
    assert timeless(history) == timeless(expected.recorded[-1])


@pytest.mark.parametrize("asked", [0, 3, 4, STEPS + EPOCHS - 1])
def test_a_signal_ends_the_run_after_the_step_or_the_epoch_in_hand(
    tmp_path: Path, whole: dict[float, Run], asked: int
) -> None:
    """It is asked for after each step, and once more after each epoch is measured."""
    run = Run(tmp_path, average_decay=0.7)
    with pytest.raises(Interruption) as interrupted:
        run.to_the_end(stop=after(asked, lambda: signal.SIGTERM))
    epochs, steps = divmod(asked, STEPS_PER_EPOCH + 1)
    step = STEPS_PER_EPOCH * epochs + min(steps + 1, STEPS_PER_EPOCH)
    assert interrupted.value.signal == signal.SIGTERM
    assert str(interrupted.value) == (
        f"interrupted after step {step} of {STEPS}; the state is saved: run the same command with "
        "--resume to go on"
    )

    again = Run(tmp_path, average_decay=0.7)
    again.trainer.resume()
    assert again.trainer.step == step
    history = again.to_the_end()
    assert same(again.network.state_dict(), whole[0.7].network.state_dict())
    assert timeless(history) == timeless(whole[0.7].recorded[-1])


def test_a_run_that_had_ended_records_its_history_again(
    tmp_path: Path, whole: dict[float, Run]
) -> None:
    """As after a kill between the last state and the record of it."""
    Run(tmp_path, average_decay=0.7).to_the_end()
    again = Run(tmp_path, average_decay=0.7)
    again.trainer.resume()
    again.to_the_end()
    assert [timeless(history) for history in again.recorded] == [timeless(whole[0.7].recorded[-1])]
    assert same(again.network.state_dict(), whole[0.7].network.state_dict())


def test_seconds_are_those_of_all_parts(tmp_path: Path) -> None:
    run = Run(tmp_path, average_decay=0.0)
    with pytest.raises(Interruption):
        run.to_the_end(stop=after(STEPS_PER_EPOCH, lambda: signal.SIGINT))
    (first,) = run.recorded[-1]
    again = Run(tmp_path, average_decay=0.0)
    again.trainer.resume()
    seconds = [measured.seconds for measured in again.to_the_end()]
    assert seconds[0] == first.seconds
    assert seconds == sorted(seconds)
