"""How the steps of an epoch went: the same sums, however many steps are read at once."""

import random

import pytest
import torch

from tests.matching import exactly
from training.errors import DivergedRunError
from training.fit.state import TrainerState
from training.fit.step_log import StepLog


def note(log: StepLog, state: TrainerState, rows: int, loss: float, correct: int) -> None:
    log.add(rows, torch.tensor(loss), torch.tensor(correct), 1e-3)
    state.step += 1


def test_the_sums_are_the_same_however_often_they_are_read() -> None:
    rng = random.Random(0)
    steps = [(rng.randint(1, 64), rng.random(), rng.randint(0, 9)) for _ in range(100)]

    def total(read_every: int) -> TrainerState:
        log, state = StepLog(1e-3), TrainerState()
        for number, step in enumerate(steps):
            note(log, state, *step)
            if number % read_every == 0:
                log.read_into(state)
        log.read_into(state)
        return state

    each = total(1)
    assert each == total(7) == total(1000)
    assert (each.seen, each.correct) == (sum(s[0] for s in steps), sum(s[2] for s in steps))
    assert each.loss_sum == sum(float(torch.tensor(loss)) * rows for rows, loss, _ in steps)


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_the_first_loss_that_is_no_number_is_named(loss: float) -> None:
    log, state = StepLog(1e-3), TrainerState(step=10)
    for value in (0.5, 0.4, loss, 0.3, float("nan")):
        note(log, state, 2, value, 1)
    message = (
        f"the loss is {loss} after 12 steps: the run has diverged; start again with a learning "
        "rate below 0.001 or a smaller max_grad_norm"
    )
    with pytest.raises(DivergedRunError, match=exactly(message)):
        log.read_into(state)
