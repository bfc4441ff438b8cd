"""Scores texts with a checkpoint, in passes of texts of similar length."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
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
from model.network.labels import choose_among
from model.predictor import Predictor
from model.reading import ReadingOptions, predict_each, read_each
from model.types import Choice, EncodedText, Prediction, Reading, SentenceResult, TextResult
from model.validation import list_items
from scoring.errors import ScoringError

# Texts that are sorted by length together, and among passes.
_BATCH_TEXTS = 4_096
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
        names = (*self.names, None)
        return [names[index] for index in self.label_ids.tolist()]

    @property
    def scores(self) -> NDArray[np.float64]:
        """The probability of each label [N]."""
        rows = np.arange(len(self.label_ids))
        return np.asarray(self.probabilities[rows, self.label_ids])

    @property
    def tokens(self) -> int:
        """Tokens that the model read of all texts, and of their sentences."""
        of_sentences = (each.prediction.token_count for text in self.sentences for each in text)
        return int(self.token_counts.sum(dtype=np.int64)) + sum(of_sentences)

    def select(self, indices: NDArray[np.intp]) -> "Answers":
        """Returns the answers at some indices, none of them refused."""
        columns = ("label_ids", "probabilities", "token_counts", "truncated", "windows")
        kept = {name: getattr(self, name)[indices] for name in columns}
        sentences = [self.sentences[index] for index in indices]
        return replace(self, **kept, sentences=sentences, refused={})


def choose(device: str, dtype: str, checkpoint: Checkpoint) -> tuple[str, DtypeChoice]:
    """Chooses device and type for options; raises ScoringError if this machine lacks one."""
    with _option("--device"):
        chosen = choose_device(device)
    with _option("--dtype"):
        return chosen, choose_dtype(dtype, chosen, checkpoint.manifest.precision)


def describe(
    checkpoint: Checkpoint,
    device: str,
    dtype: str,
    truncation: Reading,
    granularity: Granularity,
    labels: Sequence[str] | None,
) -> Model:
    """Describes what will answer, without loading the weights; raises ScoringError as `choose`."""
    chosen, choice = choose(device, dtype, checkpoint)
    with _option("--labels"):
        record = checkpoint.manifest
        given = record.labels if labels is None else labels
        among = choose_among(given, record.labels, record.temperature, record.pair_temperature)
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


@contextmanager
def _option(name: str) -> Generator[None]:
    try:
        yield
    except (ConfigurationError, ValueError) as error:
        raise ScoringError(f"{name}: {error}") from error


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
        self.model = describe(opened, device, dtype, truncation, granularity, labels)
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

    def answer(
        self,
        encoded: Sequence[EncodedText | Exception],
        *,
        advance: Callable[[int], object] = lambda _: None,
    ) -> Answers:
        """Runs the passes for what `encode` returned of N texts; `advance` counts them."""
        results: list[TextResult | Exception] = []
        for start in range(0, len(encoded), _BATCH_TEXTS):
            batch = encoded[start : start + _BATCH_TEXTS]
            results += predict_each(self._predictor, batch)
            advance(len(batch))
        count, labels = len(encoded), self.model.labels
        refused: dict[int, str] = {}
        sentences: list[Sequence[SentenceResult]] = [()] * count
        good: dict[int, Prediction] = {}
        for index, (text, result) in enumerate(zip(encoded, results, strict=True)):
            if isinstance(result, Exception):
                if self._backend.is_out_of_memory(result):
                    raise MemoryError from result
                refused[index] = str(text) if isinstance(text, Exception) else _reason(result)
                continue
            chosen = result.among(self._choice)
            good[index] = chosen.prediction
            sentences[index] = chosen.sentences or ()
        probabilities = np.full((count, len(labels)), np.nan)
        label_ids, token_counts = np.full(count, -1, np.int32), np.zeros(count, np.int32)
        truncated, windows = np.zeros(count, np.bool_), np.ones(count, np.int32)
        if good:
            rows, found = list(good), good.values()
            shares = chain.from_iterable(each.probabilities.values() for each in found)
            probabilities[rows] = np.fromiter(shares, np.float64).reshape(len(rows), -1)
            label_ids[rows] = probabilities[rows].argmax(axis=1)
            token_counts[rows] = [each.token_count for each in found]
            truncated[rows] = [each.truncated for each in found]
            windows[rows] = [each.windows for each in found]
        return Answers(
            labels, label_ids, probabilities, token_counts, truncated, windows, sentences, refused
        )


def _reason(error: Exception) -> str:
    """Returns why a text has no answer; messages of libraries may hold the text."""
    if isinstance(error, NotFiniteError):
        return "the network overflowed: score it with --dtype float32"
    return f"the model failed with {type(error).__name__}"
