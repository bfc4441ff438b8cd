"""Puts answers into tables of pandas, which is imported only when one is asked for."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from headlight_client.answers import ItemError, Prediction, Sentence

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item", bound=Prediction | ItemError)


def index_of(values: object) -> Any:  # noqa: ANN401 - an index of pandas, which may be missing
    """Returns the index of a Series; None for a list, whose `index` is a method."""
    index = getattr(values, "index", None)
    return None if callable(index) else index


def frame(data: Any, types: dict[str, str], index: Any = None) -> "pd.DataFrame":  # noqa: ANN401
    """Makes a table of columns or of dataclasses; its rows have numbers from 0 without an index."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "to_dataframe needs pandas: pip install 'headlight-client[pandas]'"
        ) from error
    return pd.DataFrame(data, index=index).astype(types)


class Predictions(list[Item]):
    """Predictions, or errors in their places, in the order of the sentences.

    Args:
        index: of the Series that held the sentences; tables have it too.
    """

    def __init__(self, items: Iterable[Item] = (), *, index: Any = None) -> None:  # noqa: ANN401
        super().__init__(items)
        self._index = index

    def __repr__(self) -> str:
        counts = Counter(
            "error" if isinstance(item, ItemError) else item.label or "without label"
            for item in self
        )
        shown = ", ".join(f"{count} {label}" for label, count in counts.items())
        return f"Predictions({len(self)}: {shown})" if shown else "Predictions(0)"

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a pandas table with a row for each text, in their order.

        It has the index of the Series that held the texts, else numbers from 0.

        Its columns are `label`, `score`, `probability_LABEL` for each label, `token_count`,
        `truncated`, `windows` if they were read in windows, `model_version` and `error`: the type
        of an `ItemError`, whose row has nothing else. A label is missing where the service
        abstained.

        Raises:
            ImportError: pandas is not installed.
        """
        items = [item if isinstance(item, Prediction) else None for item in self]
        columns = {
            **_columns(items),
            "windows": [item and item.windows for item in items],
            "model_version": [item and item.model.version for item in items],
            "error": [item.type if isinstance(item, ItemError) else None for item in self],
        }
        if not any(columns["windows"]):
            del columns["windows"]
        return frame(columns, _types(columns), self._index)

    def sentences_to_dataframe(self) -> "pd.DataFrame":
        """Returns a pandas table with a row for each sentence of each text, in their order.

        Its columns are `text` (the index of the text, of its Series or from 0), `sentence` (the
        index of the sentence in it), `start` and `end`, then those of `to_dataframe` from `label`
        to `truncated`, and `model_version`. A text without sentences has no row.
        """
        rows = [
            (text, number, sentence, item.model.version)
            for text, item in enumerate(self)
            if isinstance(item, Prediction)
            for number, sentence in enumerate(item.sentences or ())
        ]
        texts = [text for text, _, _, _ in rows]
        columns = {
            "text": texts if self._index is None else self._index.take(texts),
            "sentence": [number for _, number, _, _ in rows],
            "start": [sentence.start for _, _, sentence, _ in rows],
            "end": [sentence.end for _, _, sentence, _ in rows],
            **_columns([sentence for _, _, sentence, _ in rows]),
            "model_version": [version for _, _, _, version in rows],
        }
        types = _types(columns)
        if self._index is not None:
            del types["text"]
        return frame(columns, types)


def _columns(items: Sequence[Prediction | Sentence | None]) -> dict[str, list[Any]]:
    """Returns the columns that texts and sentences have in common."""
    labels = dict.fromkeys(label for item in items if item for label in item.probabilities)
    return {
        "label": [item and item.label for item in items],
        "score": [item and item.score for item in items],
        **{
            f"probability_{label}": [item and item.probabilities.get(label) for item in items]
            for label in labels
        },
        "token_count": [item and item.token_count for item in items],
        "truncated": [item and item.truncated for item in items],
    }


def _types(columns: Iterable[str]) -> dict[str, str]:
    """Returns the pandas type of each column."""
    known = {"truncated": "boolean", "score": "float64"}
    known |= dict.fromkeys(("label", "model_version", "error"), "string")
    return {
        name: "float64" if name.startswith("probability_") else known.get(name, "Int64")
        for name in columns
    }
