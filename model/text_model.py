"""Loads a checkpoint by its path or name, and predicts and explains texts as they are."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.location import local_folder
from model.checkpoint.opening import open_checkpoint
from model.cli.progress import progress as show
from model.explain.attribution import Attribution, Method, attribute
from model.explain.leave_one_out import LeaveOutAttribution
from model.explain.units import UnitLevel
from model.explain.views import Explanation
from model.loading import load_predictor
from model.predictor import WARM_UP_TEXT, ModelInfo, Predictor
from model.reading import ReadingOptions, leave_each_out, passes, predict_each, read_each
from model.types import EncodedText, Prediction, Reading, TextResult, Truncation
from model.validation import folder_path, list_items, one_of, one_text

if TYPE_CHECKING:
    import torch

_SHOWN = 10
_TYPES = {"token_count": "Int64", "truncated": "boolean"}
_TYPES |= dict.fromkeys(("label", "model_version", "error"), "string")


def load(
    checkpoint: str | Path,
    device: "str | torch.device" = "auto",
    dtype: "str | torch.dtype" = "auto",
) -> "TextModel":
    """Loads a checkpoint to predict with, without a server.

    Args:
        checkpoint: a folder, or `hf:NAME@REVISION`, which is fetched once.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        dtype: `auto`, which chooses as the service does, `float32`, `bfloat16`, `float16` or
            `int8`.

    Raises:
        CheckpointError: the folder is damaged, incomplete or of another kind.
        HubError: the name cannot be fetched.
        ConfigurationError: this machine does not have the device, or not the type on it.
        TypeError: an argument has the wrong type.
    """
    path = folder_path(checkpoint, by="load")
    opened = open_checkpoint(local_folder(path), trial=True)
    return TextModel(load_predictor(opened, device=device, dtype=dtype))


class Predictions(list[Prediction]):
    """Predictions in the order of the texts.

    Args:
        info: the model that made them, with the labels that it chose among.
        texts: what held the texts; a Series decides the kind of a table.
    """

    def __init__(
        self, items: Iterable[Prediction], *, info: ModelInfo, texts: object = None
    ) -> None:
        super().__init__(items)
        self._info = info
        self._is_polars = type(texts).__module__.partition(".")[0] == "polars"
        index = getattr(texts, "index", None)
        self._index = None if callable(index) else index  # that of a list is a method

    def __repr__(self) -> str:
        counts = Counter("error" if each.error else each.label or "without label" for each in self)
        shown = ", ".join(f"{count} {label}" for label, count in counts.items())
        return f"Predictions({len(self)}: {shown})" if shown else "Predictions(0)"

    def to_dataframe(self) -> Any:  # noqa: ANN401 - a table of pandas, which may be missing
        """Returns a table with a row for each text: of polars for a Series of polars.

        Any other is a frame of pandas, with the index of a Series.

        Its columns are `label`, `score`, `probability_LABEL` for each label, `token_count`,
        `truncated`, `model_version` and `error`: a row that has one has nothing else.

        Raises:
            ImportError: pandas is not installed.
        """
        columns = {
            "label": [each.label for each in self],
            "score": [each.score for each in self],
            **{
                f"probability_{label}": [each.probabilities[label] for each in self]
                for label in self._info.labels
            },
            "token_count": [None if each.error else each.token_count for each in self],
            "truncated": [None if each.error else each.truncated for each in self],
            "model_version": [None if each.error else self._info.version for each in self],
            "error": [each.error and str(each.error) for each in self],
        }
        types = {name: _TYPES.get(name, "float64") for name in columns}
        if self._is_polars:
            import polars as pl

            kinds = {name: getattr(pl, kind.capitalize()) for name, kind in types.items()}
            return pl.DataFrame(columns, kinds).fill_nan(None)
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_dataframe needs pandas: pip install pandas") from error
        return pd.DataFrame(columns, index=self._index).astype(types)


class TextModel:
    """A loaded checkpoint that takes texts; `predictor` takes encodings. Threads may share it."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor

    def __repr__(self) -> str:
        info = self.info
        return (
            f"TextModel({info.name!r}, version {info.version}, labels {list(info.labels)}, "
            f"{info.device} {info.dtype})"
        )

    @property
    def info(self) -> ModelInfo:
        """What is known of the model: name, version, labels, sizes, figures."""
        return self.predictor.info

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in the order of the probabilities."""
        return self.info.labels

    def predict(
        self,
        texts: Iterable[str | None],
        *,
        truncation: Reading = "right",
        labels: Iterable[str] | None = None,
        abstain_below: float | None = None,
        on_error: Literal["raise", "item"] = "raise",
        progress: bool = False,
    ) -> Predictions:
        """Predicts labels and calibrated probabilities of any number of texts, in batches.

        Args:
            texts: in a list, an array, a Series or another iterable.
            truncation: which end of a long text is cut off; `error` refuses a long text; `window`
                reads it whole, in windows.
            labels: two or more labels to choose among; None means all.
            abstain_below: from 0 to 1; below this probability of the best class the label is None.
            on_error: `item` answers the other texts: in the place of one that is missing or
                refused stands a prediction whose `error` says why, without a label.
            progress: whether progress shows on standard error.

        Raises:
            InputError: a text is blank, not valid Unicode or too long; the message has its place.
            TypeError: `texts` is one string or a table, or something in it is not a string.
            ValueError: an option is not known or out of range.
            NotFiniteError: the network overflowed for a text.
        """
        one_of("truncation", truncation, get_args(Reading))
        one_of("on_error", on_error, ("raise", "item"))
        if abstain_below is not None and not 0 <= abstain_below <= 1:
            raise ValueError(f"abstain_below must be from 0 to 1, got {abstain_below!r}")
        choice = None if labels is None else self.info.choice(labels)
        info = self.info if choice is None else replace(self.info, labels=choice.labels)
        items = list_items(texts, by="predict")
        read = read_each(self.predictor, items, ReadingOptions(truncation))
        if on_error == "raise":
            _raise_first(read)
        count = sum(len(each.encodings) for each in read if isinstance(each, EncodedText))
        shown = show(count, "predict") if progress else nullcontext(lambda *_: None)
        with shown as advance:
            results = predict_each(self.predictor, read, advance=lambda count: advance(count, ""))
        if on_error == "raise":
            _raise_first(results)
        predictions = [
            Prediction(None, nan, dict.fromkeys(info.labels, nan), 0, False, error=each)
            if isinstance(each, Exception)
            else each.among(choice).prediction.labelled_from(abstain_below)
            for each in results
        ]
        return Predictions(predictions, info=info, texts=texts)

    def embed(
        self, texts: Iterable[str], *, truncation: Truncation = "right"
    ) -> NDArray[np.float32]:
        """Returns the features that the classifier reads: to cluster, search or label texts by.

        Args:
            truncation: which end of a long text is cut off, or `error`.

        Returns:
            Float32 [texts, features], in the order of the texts. An encoder has `info.hidden_size`
            features, those of its pooler.

        Raises:
            InputError, TypeError, NotFiniteError: as `predict`.
        """
        one_of("truncation", truncation, get_args(Truncation))
        read = read_each(self.predictor, list_items(texts, by="embed"), ReadingOptions(truncation))
        _raise_first(read)
        encodings = [each.windows[0] for each in read if isinstance(each, EncodedText)]
        if not encodings:
            return self.predictor.embed([self.predictor.encode(WARM_UP_TEXT)])[:0]
        order = list(passes(self.predictor, encodings))
        rows = [self.predictor.embed([encodings[at] for at in part]) for part in order]
        return np.concatenate(rows)[np.argsort(np.concatenate(order))]

    def attention(
        self,
        text: str,
        *,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
        truncation: Truncation = "right",
    ) -> Explanation:
        """Returns a prediction with the attention weights of the same pass.

        Args:
            layers: layer indices; None means all.
            heads: head indices; None means all.
            truncation: which end of a long text is cut off, or `error`.

        Raises:
            InputError: the text is blank, not valid Unicode or too long.
            IndexError: the model does not have a layer or head, or none is chosen.
            TypeError: `text` is not a string.
        """
        one_of("truncation", truncation, get_args(Truncation))
        encoding = self.predictor.encode(
            one_text(text, by="attention"), truncation=truncation, with_tokens=True
        )
        return self.predictor.explain(encoding, layers=layers, heads=heads)

    def attributions(
        self,
        text: str,
        *,
        label: str | None = None,
        method: Method | Literal["leave_out"] = "integrated_gradients",
        level: UnitLevel = "token",
        truncation: Truncation = "right",
    ) -> Attribution | LeaveOutAttribution:
        """Returns what each token, word or sentence adds to the log-odds of a label.

        Args:
            label: the class to explain; None means the predicted one.
            method: by gradients, or `leave_out`: what changes without each, in `units`.
            level: `token`, `word`, or with `leave_out` `sentence`.
            truncation: which end of a long text is cut off, or `error`.

        Raises:
            InputError: the text is blank, not valid Unicode or too long.
            TypeError: `text` is not a string.
            ValueError: the model has no such label, or an option is not known.
        """
        text = one_text(text, by="attributions")
        one_of("truncation", truncation, get_args(Truncation))
        one_of("method", method, (*get_args(Method), "leave_out"))
        if method == "leave_out":
            one_of("level", level, get_args(UnitLevel))
            return leave_each_out(
                self.predictor, text, level=level, label=label, truncation=truncation
            )
        one_of("level of gradients", level, ("token", "word"))
        encoding = self.predictor.encode(text, truncation=truncation, with_tokens=True)
        found = attribute(self.predictor.gradients, encoding, label=label, method=method)
        return found.by_word() if level == "word" else found


def _raise_first(results: Sequence[EncodedText | TextResult | Exception]) -> None:
    """Raises the first error, if there is one, with the places of all."""
    errors = {at: each for at, each in enumerate(results) if isinstance(each, Exception)}
    for first, error in errors.items():
        places = ", ".join(map(str, islice(errors, _SHOWN))) + ", …" * (len(errors) > _SHOWN)
        error.args = (
            f"texts[{first}]: {error} ({len(errors)} of {len(results)} texts have no answer, at "
            f"{places}: TextModel.predict with on_error='item' answers the others)",
        )
        raise error
