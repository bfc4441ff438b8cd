"""Classifies and explains texts with a loaded checkpoint.

Legend: B batch, T tokens, L chosen layers, H chosen heads.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from model.backends.base import Backend, Runner, Selection, in_halves, isolate
from model.checkpoint.opening import Checkpoint
from model.checkpoint.records import Metric, Thresholds
from model.cli.process import open_torch
from model.errors import NoSuchPartError, NotFiniteError
from model.explain.attention_steps import HeadInspector
from model.explain.interventions import check_index
from model.explain.views import Explanation, downsample
from model.network.labels import choose_among
from model.tokenization.tokenizer import MAX_WINDOWS, check_text
from model.types import AttentionOptions, Choice, Encoding, Prediction, Truncation
from model.validation import kind_of

if TYPE_CHECKING:  # it imports torch
    from model.explain.gradients import Gradients

Entry = TypeVar("Entry")
Result = TypeVar("Result")
#: ways through the network: without weights, with weights, and back through gradients
PathName = Literal["fused", "explicit", "gradient"]

WARM_UP_TEXT = "The light is on and the road ahead is clear."


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A description of the loaded model.

    Args:
        version: the first 12 hex digits of the SHA-256 of the weights file.
        max_length: the most tokens that the model reads.
        thresholds: what thresholds leave of the answers to the validation texts; None if it was
            not recorded.
        language: the code of the only language that it reads, such as `en`; None if not recorded.
        pair_temperature: of a choice between `negative` and `positive`; None: `temperature`.
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
    engine: str
    dtype: str
    dtype_reason: str
    metrics: tuple[Metric, ...]
    thresholds: Thresholds | None = field(default=None, hash=False)
    language: str | None = None
    pair_temperature: float | None = None

    def choice(self, labels: Iterable[str]) -> Choice:
        """Returns a choice among some of the labels; raises as `choose_among`."""
        return choose_among(labels, self.labels, self.temperature, self.pair_temperature)


class Predictor:
    """A loaded checkpoint that answers; several threads may call it at once.

    It can be sent to other processes, also to ones that are spawned: they open its folder again.
    """

    def __init__(
        self,
        runner: Runner,
        checkpoint: Checkpoint,
        backend: Backend,
        *,
        info: ModelInfo,
        reopen: "partial[Predictor]",
    ) -> None:
        self.info = info
        self._gradients: Gradients | None = None
        self.inspector = HeadInspector(runner.project, checkpoint.config)
        self._reopen = reopen
        self._runner = runner
        self._tokenizer = tokenizer = checkpoint.tokenizer
        #: checks and encodes texts together; see `Tokenizer.encode_many`
        self.encode_many = tokenizer.encode_many
        #: the id of the token for what the vocabulary lacks, or None if it has none
        self.unknown_id = tokenizer.unknown_id
        #: the most tokens, padding counted, that go through the network together by default
        self.batch_tokens = backend.default_batch_tokens
        self._backend = backend
        self._config = checkpoint.config

    def __reduce__(self) -> tuple[object, ...]:
        """Lets another process open the folder again; its weights are mapped, so that is cheap."""
        return self._reopen.func, self._reopen.args

    @property
    def gradients(self) -> "Gradients":
        """Derivatives; the first use imports torch, which takes seconds.

        Raises:
            ImportError: torch is not installed.
        """
        if self._gradients is None:
            open_torch()
            from model.explain.gradients import Gradients

            self._gradients = Gradients(
                self._runner.network,
                self._config,
                temperature=self.info.temperature,
                pad_token_id=self._tokenizer.pad_token_id,
                device=self._backend.device,
            )
        return self._gradients

    @property
    def has_gradients(self) -> bool:
        """Whether `gradients` are there at once."""
        return self._gradients is not None

    def encode(
        self,
        text: str,
        *,
        truncation: Truncation = "right",
        with_tokens: bool = False,
        max_length: int | None = None,
    ) -> Encoding:
        """Checks and encodes one text; any thread may call it.

        Args:
            truncation: the end to cut off if the text does not fit, or `error`.
            with_tokens: whether to return offsets and words, which `explain` needs.
            max_length: the most tokens, if the model reads more.

        Raises:
            InputError: the text is blank, not valid Unicode, or too long with `error`; or
                `max_length` leaves no room for text.
        """
        check_text(text)
        return self._tokenizer.encode(
            text, truncation=truncation, with_tokens=with_tokens, max_length=max_length
        )

    def encode_windows(
        self, text: str, *, max_windows: int = MAX_WINDOWS, with_tokens: bool = False
    ) -> list[Encoding]:
        """Checks a text and encodes the whole of it, in windows, for `predict` and then `join`.

        Raises:
            InputError: the text is blank, not valid Unicode, or takes more windows.
        """
        check_text(text)
        return self._tokenizer.encode_windows(
            text, max_windows=max_windows, with_tokens=with_tokens
        )

    def encode_window(self, text: str, number: int, *, max_windows: int = MAX_WINDOWS) -> Encoding:
        """Checks a text and encodes one of its windows with its tokens, for `explain`.

        Offsets and words are those of the whole text.

        Raises:
            InputError: as for `encode_windows`, or the text has no window of this number, from 0.
        """
        windows = self.encode_windows(text, max_windows=max_windows, with_tokens=True)
        if not 0 <= number < len(windows):
            count = len(windows)
            known = "1 window, 0" if count == 1 else f"{count} windows, 0 to {count - 1}"
            raise NoSuchPartError(f"the text has {known}, got {number}")
        return windows[number]

    def join(self, windows: Sequence[Prediction]) -> Prediction:
        """Puts the predictions of all windows of one text together; see `Prediction.of_windows`."""
        return Prediction.of_windows(windows, temperature=self.info.temperature)

    def encode_nothing(self) -> Encoding:
        """Encodes an empty text, of which special tokens alone are left."""
        return self._tokenizer.encode("")

    def predict(self, encodings: Sequence[Encoding]) -> list[Prediction]:
        """Classifies texts, at least one, in one forward pass on the fused path.

        If memory runs out, the pass is repeated in halves.

        Raises:
            NotFiniteError: the network overflowed for one of them.
        """
        _check_encodings(encodings, by="predict")
        return _all(in_halves(self._predict, encodings, self._backend))

    def predict_each(self, encodings: Sequence[Encoding]) -> list[Prediction | Exception]:
        """Classifies texts as `predict` does; returns the error of one that fails in its place.

        Raises:
            Exception: the pass fails for a sound text too; see `model.backends.base`.
        """
        _check_encodings(encodings, by="predict_each")
        return self._each(self._predict, encodings, "fused")

    def embed(self, encodings: Sequence[Encoding]) -> NDArray[np.float32]:
        """Returns the features that the classifier reads, float32 [texts, features], in one pass.

        If memory runs out, the pass is repeated in halves.

        Raises:
            NotFiniteError: the network overflowed for one of the texts.
        """
        _check_encodings(encodings, by="embed")
        run = self._runner.embed
        features = np.stack(in_halves(lambda part: list(run(part)), encodings, self._backend))
        if bad := int((~np.isfinite(features).all(axis=1)).sum()):
            raise NotFiniteError(bad, len(features), what="features")
        return features

    def _predict(self, encodings: Sequence[Encoding]) -> list[Prediction | NotFiniteError]:
        logits = self._runner.run(encodings).logits
        return Prediction.of_batch(logits, encodings, self.info.labels, self.info.temperature)

    def explain(
        self,
        encoding: Encoding,
        *,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> Explanation:
        """Classifies one text and returns the weights of the same pass; see `explain_batch`."""
        _check_encodings([encoding], by="explain")
        (explanation,) = self.explain_batch([AttentionOptions(encoding, layers, heads)])
        return explanation

    def explain_batch(self, options: Sequence[AttentionOptions]) -> list[Explanation]:
        """Classifies texts in one pass on the explicit path and returns the weights of that pass.

        If memory runs out, the pass is repeated in halves.

        Raises:
            IndexError: the model does not have a layer or head, or none is chosen.
            NotFiniteError: the network overflowed for one of the texts.
        """
        return _all(in_halves(self._explain, options, self._backend))

    def explain_each(self, options: Sequence[AttentionOptions]) -> list[Explanation | Exception]:
        """Explains texts as `explain_batch` does; returns the error of one that fails in its place.

        Raises:
            Exception: the pass fails for a sound text too.
        """
        return self._each(self._explain, options, "explicit")

    def attempt(self, work: Callable[[], Result]) -> Result | Exception:
        """Calls `gradients` or `inspector` for one text; returns a result or the text's error.

        Raises:
            Exception: gradients fail for a sound text too.
        """

        def run(_: Sequence[None]) -> Sequence[Result | Exception]:
            return [work()]

        control = partial(self.probe, "gradient")
        (result,) = isolate(run, [None], self._backend, control=control)
        return result

    def _each(
        self,
        run: Callable[[Sequence[Entry]], Sequence[Result | NotFiniteError]],
        entries: Sequence[Entry],
        path: PathName,
    ) -> list[Result | Exception]:
        in_parts = partial(in_halves, run, backend=self._backend)
        return isolate(in_parts, entries, self._backend, control=partial(self.probe, path))

    def _explain(self, options: Sequence[AttentionOptions]) -> list[Explanation | NotFiniteError]:
        chosen = [self._choose(each) for each in options]
        encodings = [each.encoding for each in options]
        tokens = len(options) * max((len(each.input_ids) for each in encodings), default=0)
        if len(options) > 1 and tokens > self._backend.explained_tokens:
            middle = len(options) // 2
            return [*self._explain(options[:middle]), *self._explain(options[middle:])]
        # All texts of a batch leave the device with every layer and head that one of them needs.
        together = Selection(
            tuple(sorted({layer for each in chosen for layer in each.layers})),
            tuple(sorted({head for each in chosen for head in each.heads})),
        )
        output = self._runner.run(encodings, together)
        predictions = Prediction.of_batch(
            output.logits, encodings, self.info.labels, self.info.temperature
        )
        explanations: list[Explanation | NotFiniteError] = []
        for row, (prediction, each, own) in enumerate(
            zip(predictions, options, chosen, strict=True)
        ):
            weights = _cut(output.weights, row, len(each.encoding.input_ids), own, together)
            if isinstance(prediction, NotFiniteError):
                explanations.append(prediction)
                continue
            # A weight that is not a number makes the sum none either.
            if not all(np.isfinite(layer.sum()) for layer in weights):
                explanations.append(NotFiniteError(1, len(encodings), what="attention weights"))
                continue
            encoding, share, strongest = each.encoding, self._config.residual_share, None
            if each.downsampling is None:
                attention = np.stack(weights)
            else:
                assert encoding.tokens is not None  # noqa: S101 - they are encoded with them
                attention, strongest = downsample(
                    weights, encoding.tokens, each.downsampling, residual_share=share
                )
            made = Explanation(
                prediction, encoding, own.layers, own.heads, attention, share, strongest
            )
            explanations.append(made)
        return explanations

    def warm_up(self) -> None:
        """Runs all paths, so that the first request does not wait for lazy initialisation."""
        self._runner.warm_up()
        self.probe("fused")
        self.probe("explicit")
        if self._backend.gradient_cost is None:  # torch is there
            self.probe("gradient")

    def probe(self, path: PathName = "fused") -> None:
        """Sends one short text through the network and raises its errors."""
        encoding = self.encode(WARM_UP_TEXT, with_tokens=True)
        if path == "fused":
            self.predict([encoding])
        elif path == "explicit":
            self.explain(encoding)
        else:
            self.gradients.probe(encoding)

    def _choose(self, options: AttentionOptions) -> Selection:
        return Selection(
            _check_indices(options.layers, self.info.num_layers, "layer"),
            _check_indices(options.heads, self.info.num_heads, "head"),
        )


def _check_encodings(encodings: Sequence[object], *, by: str) -> None:
    for each in encodings:
        if not isinstance(each, Encoding):
            raise TypeError(
                f"{by} takes encodings, got {kind_of(each)}: encode each text with "
                "predictor.encode, or give texts to model.load(folder)"
            )


def _all(results: Sequence[Result | NotFiniteError]) -> list[Result]:
    """Raises the first error among results, if there is one."""
    answers = [result for result in results if not isinstance(result, NotFiniteError)]
    if len(answers) < len(results):
        raise next(result for result in results if isinstance(result, NotFiniteError))
    return answers


def _cut(
    weights: Sequence[NDArray[np.float32]],
    row: int,
    length: int,
    wanted: Selection,
    available: Selection,
) -> list[NDArray[np.float32]]:
    """Cuts the weights of one text out of a batch, without padding: [H, T, T] of each layer."""
    # A slice is a view; a list of heads would copy.
    heads = (
        slice(None)
        if wanted.heads == available.heads
        else [available.heads.index(head) for head in wanted.heads]
    )
    layers = (weights[available.layers.index(layer)] for layer in wanted.layers)
    return [layer[row][heads, :length, :length] for layer in layers]


def _check_indices(wanted: Sequence[int] | None, count: int, kind: str) -> tuple[int, ...]:
    if wanted is None:
        return tuple(range(count))
    if not wanted:
        raise IndexError(f"no {kind} is chosen: give one or more from 0 to {count - 1}, or None")
    for index in wanted:
        check_index(index, count, kind)
    return tuple(sorted(set(wanted)))
