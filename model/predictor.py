"""Answers for texts with a loaded network, its tokenizer, labels and temperature.

Legend: B batch, T tokens, L chosen layers, H chosen heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.backends.base import Backend, Runner, Selection
from model.backends.memory import in_halves
from model.config import EncoderConfig
from model.gradients import Gradients
from model.manifest import Metric
from model.prediction import Prediction, make_predictions
from model.text import check_text
from model.tokenizer import Encoding, Tokenizer, Truncation

_WARM_UP_TEXT = "The light is on and the road ahead is clear."
_WARM_UP_PASSES = 3


@dataclass(frozen=True, slots=True)
class Question:
    """A text whose attention is wanted.

    Args:
        encoding: the text, encoded with its tokens.
        layers: which layers are wanted, all if None; answered in ascending order, each once.
        heads: which heads of each, likewise.
    """

    encoding: Encoding
    layers: Sequence[int] | None = None
    heads: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A prediction with the weights of the same forward pass.

    Args:
        prediction: what the model says of the text.
        encoding: the text as the model read it, with its tokens.
        layers: numbers of the chosen layers, ascending.
        heads: numbers of the chosen heads, ascending.
        attention: float32 [L, H, T, T]; the weight that query token q gives to key token k.
        residual_share: of a layer's output that passes attention by, for `model.views.rollout`.
    """

    prediction: Prediction
    encoding: Encoding
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    attention: NDArray[np.float32]
    residual_share: float = EncoderConfig.residual_share


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of the loaded model.

    Args:
        name: of the checkpoint folder.
        version: the first 12 hex digits of the SHA-256 of the weights file.
        architecture: name of the network.
        labels: in the order of the classes.
        num_layers: layers that give attention weights.
        num_heads: heads of each layer.
        hidden_size: features of a token.
        parameters: how many numbers were trained.
        max_length: the most tokens that the model reads.
        temperature: logits are divided by it before the softmax.
        device: where the network runs.
        dtype: what its projections compute in.
        metrics: the accuracy recorded at training.
    """

    name: str
    version: str
    architecture: str
    labels: tuple[str, ...]
    num_layers: int
    num_heads: int
    hidden_size: int
    parameters: int
    max_length: int
    temperature: float
    device: str
    dtype: str
    metrics: tuple[Metric, ...]


class Predictor:
    """Answers for one loaded checkpoint, to several threads at once if need be.

    Args:
        runner: runs passes of the network.
        tokenizer: that of the same checkpoint.
        info: what is known of the model.
        backend: where the network runs.
        gradients: derivatives of what the same weights say; see `model.gradients`.
        residual_share: of a layer's output that passes attention by; an encoder's if not given.
    """

    def __init__(
        self,
        runner: Runner,
        tokenizer: Tokenizer,
        *,
        info: ModelInfo,
        backend: Backend,
        gradients: Gradients,
        residual_share: float = EncoderConfig.residual_share,
    ) -> None:
        self.info = info
        self.gradients = gradients
        self._runner = runner
        self._tokenizer = tokenizer
        self._backend = backend
        self._residual_share = residual_share

    def encode(
        self, text: str, *, truncation: Truncation = "right", with_tokens: bool = False
    ) -> Encoding:
        """Checks and encodes one text; may be called from any thread.

        Args:
            text: any string.
            truncation: which end is cut off if the text does not fit, or `error`.
            with_tokens: whether offsets and words are wanted too, as `explain` needs.

        Raises:
            InputError: the text is blank, not valid Unicode, or too long with `error`.
        """
        check_text(text)
        return self._tokenizer.encode(text, truncation=truncation, with_tokens=with_tokens)

    def predict(self, encodings: Sequence[Encoding]) -> list[Prediction]:
        """Classifies texts in one forward pass by the fused path.

        What memory does not hold at once is computed in halves.

        Args:
            encodings: B texts, at least one.

        Returns:
            A prediction for each, in their order.

        Raises:
            NotFiniteError: the network overflowed for one of them.
        """
        return in_halves(self._predict, encodings, self._backend)

    def _predict(self, encodings: Sequence[Encoding]) -> list[Prediction]:
        started = self._runner.predict(self._runner.prepare(encodings))
        return self._predictions(self._runner.to_host(started).logits, encodings)

    def explain(
        self,
        encoding: Encoding,
        *,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> Explanation:
        """Classifies one text and returns the weights of the same pass; as `explain_batch`."""
        (explanation,) = self.explain_batch([Question(encoding, layers, heads)])
        return explanation

    def explain_batch(self, questions: Sequence[Question]) -> list[Explanation]:
        """Classifies texts in one pass by the explicit path and returns the weights of that pass.

        What memory does not hold at once is computed in halves.

        Args:
            questions: B texts with what is wanted of each, at least one.

        Returns:
            An explanation for each, in their order.

        Raises:
            IndexError: a layer or head that the model does not have, or none at all.
            NotFiniteError: the network overflowed for one of the texts.
        """
        return in_halves(self._explain, questions, self._backend)

    def _explain(self, questions: Sequence[Question]) -> list[Explanation]:
        chosen = [self._choose(question) for question in questions]
        encodings = [question.encoding for question in questions]
        # Of the texts of a batch together: what one wants, all leave the device with.
        together = Selection(
            tuple(sorted({layer for each in chosen for layer in each.layers})),
            tuple(sorted({head for each in chosen for head in each.heads})),
        )
        started = self._runner.explain(self._runner.prepare(encodings), together)
        output = self._runner.to_host(started)
        predictions = self._predictions(output.logits, encodings)
        return [
            Explanation(
                prediction=predictions[row],
                encoding=encoding,
                layers=own.layers,
                heads=own.heads,
                attention=_cut(output.weights, row, len(encoding.input_ids), own, together),
                residual_share=self._residual_share,
            )
            for row, (encoding, own) in enumerate(zip(encodings, chosen, strict=True))
        ]

    def warm_up(self) -> None:
        """Runs both paths, so that the first request does not pay for what is lazy."""
        encoding = self.encode(_WARM_UP_TEXT, with_tokens=True)
        # TorchScript watches one pass and makes its code in the next.
        for _ in range(_WARM_UP_PASSES):
            self.predict([encoding])
            self.explain(encoding)

    def probe(self) -> None:
        """One small forward pass; raises what a real one would."""
        self.predict([self.encode(_WARM_UP_TEXT)])

    def _choose(self, question: Question) -> Selection:
        return Selection(
            _choose(question.layers, self.info.num_layers, "layer"),
            _choose(question.heads, self.info.num_heads, "head"),
        )

    def _predictions(
        self, logits: NDArray[np.float32], encodings: Sequence[Encoding]
    ) -> list[Prediction]:
        return make_predictions(
            logits, encodings, labels=self.info.labels, temperature=self.info.temperature
        )


def _cut(
    weights: Sequence[NDArray[np.float32]],
    row: int,
    length: int,
    wanted: Selection,
    given: Selection,
) -> NDArray[np.float32]:
    """The weights of one text of a batch, without those of padding, [L, H, T, T]."""
    # A slice costs nothing, where picking heads one by one makes a copy.
    heads = (
        slice(None)
        if wanted.heads == given.heads
        else [given.heads.index(head) for head in wanted.heads]
    )
    layers = (weights[given.layers.index(layer)] for layer in wanted.layers)
    return np.stack([layer[row][heads, :length, :length] for layer in layers])


def _choose(wanted: Sequence[int] | None, count: int, kind: str) -> tuple[int, ...]:
    if wanted is None:
        return tuple(range(count))
    if not wanted:
        raise IndexError(f"no {kind} is chosen: give one or more from 0 to {count - 1}, or None")
    for index in wanted:
        if not 0 <= index < count:
            raise IndexError(f"{kind} {index} does not exist: the model has 0 to {count - 1}")
    return tuple(sorted(set(wanted)))
