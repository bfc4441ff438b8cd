"""Scores texts with a checkpoint, in passes of texts of similar length."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from model.backends.base import use_threads
from model.backends.device import DtypeChoice, choose_backend, choose_device, choose_dtype
from model.checkpoint.location import local_folder
from model.checkpoint.opening import Checkpoint, open_checkpoint
from model.errors import ConfigurationError, NotFiniteError
from model.loading import load_on
from model.predictor import Predictor
from model.reading import ReadingOptions, predict_each, read_each
from model.types import Choice, EncodedText, Reading, SentenceResult
from model.validation import list_items
from scoring.errors import ScoringError

#: whether a text is scored only as a whole, or its sentences too
Granularity = Literal["text", "sentence"]


@dataclass(frozen=True)
class Model:
    """What answers, and how. A job goes on only with the same model.

    `version` is the first 12 hex digits of the SHA-256 of the weights; `dtype` is the type of the
    projections.
    """

    name: str
    version: str
    labels: tuple[str, ...]
    temperature: float
    max_length: int
    device: str
    dtype: str
    truncation: Reading
    granularity: Granularity = "text"


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers for N texts, of C classes.

    Args:
        label_ids: the most probable class, int32 [N]; -1 for a refused text.
        probabilities: calibrated, float64 [N, C]; a row sums to 1, or is NaN for a refused text.
        token_counts: tokens that the model read, int32 [N].
        truncated: whether a part of the text was cut off, bool [N].
        windows: how many windows it was read in, int32 [N].
        sentences: the sentences of each text [N]; empty if they are not scored.
        refused: why texts have no answer, by their indices.
    """

    names: tuple[str, ...]
    label_ids: NDArray[np.int32]
    probabilities: NDArray[np.float64]
    token_counts: NDArray[np.int32]
    truncated: NDArray[np.bool_]
    windows: NDArray[np.int32]
    sentences: Sequence[Sequence[SentenceResult]]
    refused: Mapping[int, str]

    @property
    def labels(self) -> list[str | None]:
        """The label of each text; None for a refused one."""
        return [self.names[index] if index >= 0 else None for index in self.label_ids]

    @property
    def scores(self) -> NDArray[np.float64]:
        """The probability of each label [N]."""
        rows = np.arange(len(self.label_ids))
        scores: NDArray[np.float64] = self.probabilities[rows, self.label_ids]
        return scores

    @property
    def tokens(self) -> int:
        """Tokens that the model read of all texts, and of their sentences."""
        of_sentences = (each.prediction.token_count for text in self.sentences for each in text)
        return int(self.token_counts.sum(dtype=np.int64)) + sum(of_sentences)

    def select(self, indices: NDArray[np.intp]) -> "Answers":
        """Returns the answers at some indices, none of them refused."""
        return Answers(
            self.names,
            self.label_ids[indices],
            self.probabilities[indices],
            self.token_counts[indices],
            self.truncated[indices],
            self.windows[indices],
            [self.sentences[index] for index in indices],
            {},
        )


def choose(device: str, dtype: str, checkpoint: Checkpoint) -> tuple[str, DtypeChoice]:
    """Chooses device and type for options; raises ScoringError if this machine lacks one."""
    try:
        chosen = choose_device(device)
    except ConfigurationError as error:
        raise ScoringError(f"--device: {error}") from error
    try:
        return chosen, choose_dtype(dtype, chosen, checkpoint.manifest.precision)
    except ConfigurationError as error:
        raise ScoringError(f"--dtype: {error}") from error


def describe(
    checkpoint: Checkpoint,
    *,
    device: str,
    dtype: str,
    truncation: Reading,
    granularity: Granularity = "text",
    labels: Sequence[str] | None = None,
) -> Model:
    """Describes what will answer, without loading the weights; raises ScoringError as `choose`."""
    chosen, choice = choose(device, dtype, checkpoint)
    among = _choice(checkpoint, labels)
    return Model(
        name=checkpoint.name,
        version=checkpoint.version,
        labels=among.labels,
        temperature=among.temperature,
        max_length=checkpoint.manifest.max_length,
        device=chosen.partition(":")[0],
        dtype=choice.dtype,
        truncation=truncation,
        granularity=granularity,
    )


def _choice(checkpoint: Checkpoint, labels: Sequence[str] | None) -> Choice:
    try:
        return checkpoint.choice(checkpoint.config.labels if labels is None else labels)
    except ValueError as error:
        raise ScoringError(f"--labels: {error}") from error


class Scorer:
    """A loaded checkpoint that scores lists of texts.

    Args:
        checkpoint: a folder, `hf:NAME@REVISION`, or a checkpoint that is open.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        dtype: `auto` or a type.
        truncation: the end of a long text that is cut off, `error`, or `window`: it is read whole.
        granularity: whether the sentences of a text are scored too.
        labels: the labels to choose among; None: all of the checkpoint.
        threads: of the process on a processor; 0: as many as it may use.
        trial: whether a process of its own tries the tokenizer first.

    Raises:
        model.errors.ModelError: the checkpoint cannot be loaded.
        ScoringError: this machine does not have the device, or not the type on it.
    """

    def __init__(
        self,
        checkpoint: str | Path | Checkpoint,
        *,
        device: str = "auto",
        dtype: str = "auto",
        truncation: Reading = "right",
        granularity: Granularity = "text",
        labels: Sequence[str] | None = None,
        threads: int = 0,
        trial: bool = True,
    ) -> None:
        opened = checkpoint
        if not isinstance(opened, Checkpoint):
            opened = open_checkpoint(local_folder(Path(opened)), trial=trial)
        self.model = describe(
            opened,
            device=device,
            dtype=dtype,
            truncation=truncation,
            granularity=granularity,
            labels=labels,
        )
        whole = self.model.labels == opened.config.labels
        self._choice = None if whole else Choice(self.model.labels, self.model.temperature)
        chosen, choice = choose(device, dtype, opened)
        backend = choose_backend(opened, device=chosen, dtype=choice, threads=threads)
        if chosen == "cpu":
            use_threads(backend.cores)
        self._backend = backend
        self._predictor: Predictor = load_on(opened, backend)
        self._reading = ReadingOptions(truncation, by_sentence=granularity == "sentence")

    def score(self, texts: Sequence[str | None]) -> Answers:
        """Scores texts.

        The same list always has the same answers, bit for bit, on the same kind of machine.

        Returns:
            Their answers, in the same order. A text that is missing, or that the model rejects,
            has a reason instead.

        Raises:
            TypeError: `texts` is one string or a table.
            MemoryError: there is too little for one text.
            Exception: the device fails for a valid text too.
        """
        return self.answer(self.encode(list_items(texts, by="score")))

    def encode(self, texts: Sequence[object]) -> list[EncodedText | Exception]:
        """Encodes texts in any thread; in the place of a refused one stands its error."""
        return read_each(self._predictor, texts, self._reading)

    def answer(self, encoded: Sequence[EncodedText | Exception]) -> Answers:
        """Runs the passes for what `encode` returned of N texts."""
        count, labels = len(encoded), self.model.labels
        refused: dict[int, str] = {}
        sentences: list[Sequence[SentenceResult]] = [()] * count
        answers = Answers(
            labels,
            np.full(count, -1, np.int32),
            np.full((count, len(labels)), np.nan),
            np.zeros(count, np.int32),
            np.zeros(count, np.bool_),
            np.ones(count, np.int32),
            sentences,
            refused,
        )
        results = predict_each(self._predictor, encoded)
        for index, (text, result) in enumerate(zip(encoded, results, strict=True)):
            if isinstance(result, Exception):
                if self._backend.is_out_of_memory(result):
                    raise MemoryError from result
                refused[index] = str(text) if isinstance(text, Exception) else _reason(result)
                continue
            result = result.among(self._choice)
            whole = result.prediction
            answers.label_ids[index] = labels.index(whole.best)
            answers.probabilities[index] = list(whole.probabilities.values())
            answers.token_counts[index] = whole.token_count
            answers.truncated[index] = whole.truncated
            answers.windows[index] = whole.windows
            sentences[index] = result.sentences or ()
        return answers


def _reason(error: Exception) -> str:
    """Returns why a text has no answer; messages of libraries may hold the text."""
    if isinstance(error, NotFiniteError):
        return "the network overflowed: score it with --dtype float32"
    return f"the model failed with {type(error).__name__}"
