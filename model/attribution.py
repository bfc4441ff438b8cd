"""From a text to what each of its tokens adds to the log-odds of a label.

Legend: T tokens, W entries: words and special tokens, K nodes of the integral.

Integrated gradients (Sundararajan, Taly and Yan 2017, "Axiomatic attribution for deep networks"):
the gradient of f by a token's embedding, in the mean over the straight path from a baseline to the
text, times the way that this embedding goes. In exact arithmetic the attributions sum to f(text) -
f(baseline), which they call completeness; how far they are from it is the gap. The mean is an
integral over the path, taken by the rule of Gauss and Legendre, whose error, once there are nodes
enough, falls much quicker with their number than that of a sum over even steps.

Gradient x input is the same with one node, at the text. Its attributions need not sum to anything.

A long text with many nodes is work for seconds, so it is cut into pieces that may be computed
apart and on any threads: `Attributor`.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from model.gradients import Ends, Gradients
from model.prediction import Prediction
from model.tokenizer import Encoding, Token
from model.words import group_words, sum_words

Method = Literal["integrated_gradients", "gradient_x_input"]

STEPS = 32
MOST_STEPS = 256
_MAX_BATCH_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Attribution:
    """What each token, or each word, adds to the log-odds f of a label.

    Args:
        prediction: what the model says of the text.
        encoding: the text as the model read it.
        method: how it was computed.
        label: the class.
        steps: nodes of the integral; None for gradient x input.
        tokens: what the attributions belong to: T tokens, or W words and special tokens.
        attributions: in their order, float64 [T] or [W]; 0 for special tokens.
        value: f of the text.
        baseline_value: f of the baseline.
    """

    prediction: Prediction
    encoding: Encoding
    method: Method
    label: str
    steps: int | None
    tokens: tuple[Token, ...]
    attributions: NDArray[np.float64]
    value: float
    baseline_value: float

    @property
    def gap(self) -> float:
        """What is missing from the attributions for them to sum to f(text) - f(baseline)."""
        return self.value - self.baseline_value - float(self.attributions.sum())

    def by_word(self) -> "Attribution":
        """The same with the tokens of each word summed."""
        assert self.encoding.text is not None  # noqa: S101 - it is kept with the tokens
        words = group_words(self.encoding.text, self.tokens)
        sums = sum_words(self.attributions, words)
        return replace(self, tokens=words.tokens, attributions=sums)


class Attributor:
    """Attributes what a model says of one text, in pieces.

    `integrate` of each piece may run on any thread, in any order and at once; what it returned for
    all pieces goes to `finish`.

    Args:
        gradients: of the model.
        encoding: the text, encoded with its tokens.
        label: the class to explain; the predicted one if None.
        method: integrated gradients, or gradient x input.
        steps: nodes of the integral, 1 to 256; of no meaning for gradient x input.

    Raises:
        ValueError: `steps` is out of range.
    """

    def __init__(
        self,
        gradients: Gradients,
        encoding: Encoding,
        *,
        label: str | None = None,
        method: Method = "integrated_gradients",
        steps: int = STEPS,
    ) -> None:
        if not 1 <= steps <= MOST_STEPS:
            raise ValueError(f"steps must be from 1 to {MOST_STEPS}, got {steps}")
        self._gradients = gradients
        self._encoding = encoding
        self._label = label
        self._method: Method = method
        self._nodes = steps if method == "integrated_gradients" else 1
        self._lock = threading.Lock()
        self._ends: Ends | None = None

    def pieces(self, max_batch_tokens: int) -> list[range]:
        """Cuts the nodes into pieces of like sizes.

        Args:
            max_batch_tokens: the most tokens in a piece, T for each node; one node is the least.
        """
        most = max(1, max_batch_tokens // len(self._encoding.input_ids))
        count = -(-self._nodes // most)
        cuts = [self._nodes * piece // count for piece in range(count + 1)]
        return [range(*ends) for ends in pairwise(cuts)]

    def integrate(self, piece: range) -> NDArray[np.float64]:
        """The part of the integral that some nodes make: a row each in one pass, there and back.

        The first one classifies the text and its baseline too: two rows more, in a pass before.

        Args:
            piece: of `pieces`.

        Returns:
            Their share in each attribution, float64 [T].

        Raises:
            ValueError: the model has no such label, or the encoding no tokens.
        """
        if self._method == "integrated_gradients":
            places, weights = _gauss_legendre(self._nodes)
        else:
            places, weights = np.ones(1), np.ones(1)
        chosen = slice(piece.start, piece.stop)
        return self._gradients.along(self._start(), places[chosen], weights[chosen])

    def finish(self, shares: Iterable[NDArray[np.float64]]) -> Attribution:
        """Puts the result together.

        Args:
            shares: of all pieces.
        """
        ends = self._start()
        assert ends.encoding.tokens is not None  # noqa: S101 - without them there are no ends
        return Attribution(
            prediction=ends.prediction,
            encoding=ends.encoding,
            method=self._method,
            label=ends.label,
            steps=self._nodes if self._method == "integrated_gradients" else None,
            tokens=ends.encoding.tokens,
            attributions=np.sum(list(shares), axis=0),
            value=ends.value,
            baseline_value=ends.baseline_value,
        )

    def _start(self) -> Ends:
        with self._lock:  # what label is explained may depend on it, so the others wait
            if self._ends is None:
                self._ends = self._gradients.ends(self._encoding, label=self._label)
            return self._ends


def attribute(
    gradients: Gradients,
    encoding: Encoding,
    *,
    label: str | None = None,
    method: Method = "integrated_gradients",
    steps: int = STEPS,
    max_batch_tokens: int = _MAX_BATCH_TOKENS,
) -> Attribution:
    """Attributes what a model says of one text, piece by piece on this thread.

    Args:
        gradients: of the model.
        encoding: the text, encoded with its tokens.
        label: the class to explain; the predicted one if None.
        method: integrated gradients, or gradient x input.
        steps: nodes of the integral, 1 to 256; of no meaning for gradient x input.
        max_batch_tokens: the most tokens in one pass, unless a single row has more.

    Raises:
        ValueError: the model has no such label, `steps` is out of range, or the encoding has no
            tokens.
    """
    attributor = Attributor(gradients, encoding, label=label, method=method, steps=steps)
    return attributor.finish(map(attributor.integrate, attributor.pieces(max_batch_tokens)))


@cache
def _gauss_legendre(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Places from 0 to 1 and weights that sum to 1 [K]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2
