"""Sums up the steps of an epoch, and reads them from the device only when needed."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from training.errors import DivergedRunError
from training.fit.state import TrainerState


class StepLog:
    """Steps whose results are still on the device. Each read waits for the device."""

    def __init__(self, learning_rate: float) -> None:
        self._learning_rate = learning_rate
        #: called with each step that is read: the steps before it, its mean loss and its rate
        self.observe: Callable[[int, float, float], None] | None = None
        self._unread: list[tuple[int, Tensor, Tensor, float]] = []

    def add(self, rows: int, loss: Tensor, correct: Tensor, rate: float) -> None:
        """Adds a step."""
        self._unread.append((rows, loss.detach(), correct, rate))

    def read_into(self, state: TrainerState) -> None:
        """Moves the steps to the sums of the epoch."""
        if not self._unread:
            return
        rows, losses, correct, rates = zip(*self._unread, strict=True)
        self._unread.clear()
        step = state.step - len(rows)
        for count, loss, rate in zip(rows, torch.stack(losses).tolist(), rates, strict=True):
            state.loss_sum += self.check_finite(loss, step) * count
            if self.observe is not None:
                self.observe(step, loss, rate)
            step += 1
        state.correct += int(torch.stack(correct).sum())
        state.seen += sum(rows)

    def check_finite(self, loss: float, step: int) -> float:
        """Returns the loss after so many steps, or raises `DivergedRunError`."""
        if not math.isfinite(loss):
            raise DivergedRunError(
                f"the loss is {loss} after {step} steps: the run has diverged; start again with a "
                f"learning rate below {self._learning_rate:g} or a smaller max_grad_norm"
            )
        return loss
