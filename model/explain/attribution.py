"""Computes what each token of a text adds to the log-odds of a label.

Legend: T tokens, W entries (words and special tokens), K nodes of the integral.

Integrated gradients (Sundararajan, Taly and Yan 2017) average the gradient of f over the straight
path from a baseline to the text, by Gauss-Legendre quadrature, and multiply it by the difference
of the embeddings. The attributions sum to f(text) - f(baseline), but for the gap. Gradient x input
has one node, at the text.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from model.explain.pictures import Shares
from model.tokenization.words import group_words, sum_words
from model.types import Choice, Encoding, Prediction
from model.validation import one_of

if TYPE_CHECKING:  # it imports torch
    from model.explain.gradients import Endpoints, Gradients

Method = Literal["integrated_gradients", "gradient_x_input"]

STEPS = 32
MOST_STEPS = 256
_MAX_BATCH_TOKENS = 512
# A pass keeps the states of all layers for the way back, 150 kB a token of the default network.
_MOST_TOKENS = 2_048


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Attribution(Shares):
    """What each token or word adds to the log-odds f of a label; `method` is a `Method`.

    Args:
        steps: nodes of the integral; None for gradient x input.
    """

    encoding: Encoding
    steps: int | None

    def __repr__(self) -> str:
        return f"Attribution({self.method!r}, of {self.label!r}, {len(self.tokens)} tokens)"

    def by_word(self) -> "Attribution":
        """Sums the attributions of each word's tokens."""
        assert self.encoding.text is not None  # noqa: S101 - kept with the tokens
        words = group_words(self.encoding.text, self.tokens)
        sums = sum_words(self.attributions, words)
        return replace(self, tokens=words.tokens, attributions=sums)


@dataclass(frozen=True, slots=True)
class HeadImportance:
    """How much the log-odds f of a label depend on each head, for one text.

    Args:
        importance: |df / d xi| at xi = 1, float64 [L, H]; xi multiplies the output of head h of
            layer l.
    """

    prediction: Prediction
    label: str
    importance: NDArray[np.float64]


class Attributor:
    """The attribution of one prediction, computed in pieces that any threads may compute.

    Args:
        encoding: the text, encoded with its tokens.
        label: the class to explain; None means the predicted one.
        choice: the labels to choose among; None means all.
        method: integrated gradients, or gradient x input.
        steps: nodes of the integral, 1 to 256; gradient x input ignores it.

    Raises:
        ValueError: `steps` is out of range, or the method is not known.
    """

    def __init__(
        self,
        gradients: "Gradients",
        encoding: Encoding,
        *,
        label: str | None = None,
        choice: Choice | None = None,
        method: Method = "integrated_gradients",
        steps: int = STEPS,
    ) -> None:
        one_of("method", method, get_args(Method))
        if not 1 <= steps <= MOST_STEPS:
            raise ValueError(f"steps must be from 1 to {MOST_STEPS}, got {steps}")
        self._gradients = gradients
        self._encoding = encoding
        self._label, self._choice = label, choice
        self._method: Method = method
        self._nodes = steps if method == "integrated_gradients" else 1
        self._lock = threading.Lock()
        self._ends: Endpoints | None = None

    def pieces(self, max_batch_tokens: int) -> list[range]:
        """Cuts the nodes into similar pieces of at most so many tokens, T a node, or one node."""
        most = max(1, min(max_batch_tokens, _MOST_TOKENS) // len(self._encoding.input_ids))
        count = -(-self._nodes // most)
        cuts = [self._nodes * piece // count for piece in range(count + 1)]
        return [range(*ends) for ends in pairwise(cuts)]

    def integrate(self, piece: range) -> NDArray[np.float64]:
        """Computes the share of a piece in each attribution, float64 [T]; see `pieces`.

        One forward and backward pass has a row for each node. The first call also classifies the
        text and its baseline.

        Raises:
            ValueError: the model has no such label, or the encoding no tokens.
        """
        if self._method == "gradient_x_input":
            self._ends, shares = self._gradients.at_text(
                self._encoding, label=self._label, choice=self._choice
            )
            return shares
        points, weights = _gauss_legendre(self._nodes)
        chosen = slice(piece.start, piece.stop)
        return self._gradients.along(self._start(), points[chosen], weights[chosen])

    def finish(self, shares: Iterable[NDArray[np.float64]]) -> Attribution:
        """Sums the results of `integrate` for all pieces."""
        total = np.sum(list(shares), axis=0)  # may be what computes the ends
        ends = self._start()
        assert ends.encoding.tokens is not None  # noqa: S101 - `ends` raises without tokens
        return Attribution(
            prediction=ends.prediction,
            encoding=ends.encoding,
            method=self._method,
            label=ends.label,
            steps=self._nodes if self._method == "integrated_gradients" else None,
            tokens=ends.encoding.tokens,
            attributions=total,
            value=ends.value,
            baseline_value=ends.baseline_value,
        )

    def _start(self) -> "Endpoints":
        with self._lock:  # other threads wait: the label may depend on the prediction
            if self._ends is None:
                self._ends = self._gradients.ends(
                    self._encoding, label=self._label, choice=self._choice
                )
            return self._ends


def attribute(
    gradients: "Gradients",
    encoding: Encoding,
    *,
    label: str | None = None,
    method: Method = "integrated_gradients",
    steps: int = STEPS,
    max_batch_tokens: int = _MAX_BATCH_TOKENS,
) -> Attribution:
    """Attributes one prediction to the tokens of its text, on this thread; see `Attributor`.

    Raises:
        ValueError: the model has no such label, `steps` is out of range, or the encoding has no
            tokens.
    """
    attributor = Attributor(gradients, encoding, label=label, method=method, steps=steps)
    return attributor.finish(map(attributor.integrate, attributor.pieces(max_batch_tokens)))


@cache
def _gauss_legendre(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns K nodes from 0 to 1 and their K weights, which sum to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2
