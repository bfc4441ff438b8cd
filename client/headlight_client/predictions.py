"""Holds the answers to several sentences: a list that can become a table of pandas."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from headlight_client.answers import ItemError, Prediction, Sentence
from headlight_client.tables import frame

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item", bound=Prediction | ItemError)


class Predictions(list[Item]):
    """Predictions, or errors in their places, in the order of the sentences."""

    def __repr__(self) -> str:
        """How many there are of each label, without any sentence."""
        counts = Counter(
            "error" if isinstance(item, ItemError) else item.label or "without label"
            for item in self
        )
        told = ", ".join(f"{count} {label}" for label, count in counts.items())
        return f"Predictions({len(self)}: {told})" if told else "Predictions(0)"

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a table with a row for each text, in their order.

        Its columns are `label`, `score`, `probability_LABEL` for each label, `token_count`,
        `truncated`, `windows` if they were read in windows, `model_version` and `error`: the type
        of an `ItemError`, whose row has nothing else. A label is missing where the service
        abstained.

        Raises:
            ImportError: pandas is not installed.
        """
        found = [item if isinstance(item, Prediction) else None for item in self]
        columns = {
            **_columns(found),
            "windows": [item and item.windows for item in found],
            "model_version": [item and item.model.version for item in found],
            "error": [item.type if isinstance(item, ItemError) else None for item in self],
        }
        if not any(columns["windows"]):
            del columns["windows"]
        return frame(columns, _types(columns))

    def sentences_to_dataframe(self) -> "pd.DataFrame":
        """Returns a table with a row for each sentence of each text, in their order.

        Its columns are `text` (the index of the text, from 0), `sentence` (the index of the
        sentence in it), `start` and `end`, then those of `to_dataframe` from `label` to
        `truncated`, and `model_version`. A text without sentences has no row.

        Raises:
            ImportError: pandas is not installed.
        """
        found = [
            (text, number, sentence, item.model.version)
            for text, item in enumerate(self)
            if isinstance(item, Prediction)
            for number, sentence in enumerate(item.sentences or ())
        ]
        columns = {
            "text": [text for text, _, _, _ in found],
            "sentence": [number for _, number, _, _ in found],
            "start": [sentence.start for _, _, sentence, _ in found],
            "end": [sentence.end for _, _, sentence, _ in found],
            **_columns([sentence for _, _, sentence, _ in found]),
            "model_version": [version for _, _, _, version in found],
        }
        return frame(columns, _types(columns))


def _columns(found: Sequence[Prediction | Sentence | None]) -> dict[str, list[Any]]:
    """The columns that texts and sentences have in common."""
    labels = dict.fromkeys(label for item in found if item for label in item.probabilities)
    return {
        "label": [item and item.label for item in found],
        "score": [item and item.score for item in found],
        **{
            f"probability_{label}": [item and item.probabilities.get(label) for item in found]
            for label in labels
        },
        "token_count": [item and item.token_count for item in found],
        "truncated": [item and item.truncated for item in found],
    }


def _types(columns: Mapping[str, object]) -> dict[str, str]:
    """The type of each column in pandas."""
    texts = {"label", "model_version", "error"}
    numbers = {"score", *(name for name in columns if name.startswith("probability_"))}
    return {
        name: "boolean"
        if name == "truncated"
        else "string"
        if name in texts
        else "float64"
        if name in numbers
        else "Int64"
        for name in columns
    }
