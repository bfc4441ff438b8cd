"""Holds the answers to several sentences: a list that can become a table of pandas."""

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from headlight_client.answers import ItemError, Prediction
from headlight_client.tables import frame

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item", bound=Prediction | ItemError)


class Predictions(list[Item]):
    """Predictions, or errors in their places, in the order of the sentences."""

    def __repr__(self) -> str:
        """How many there are of each label, without any sentence."""
        counts = Counter("error" if isinstance(item, ItemError) else item.label for item in self)
        told = ", ".join(f"{count} {label}" for label, count in counts.items())
        return f"Predictions({len(self)}: {told})" if told else "Predictions(0)"

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a table with a row for each sentence, in their order.

        Its columns are `label`, `score`, `probability_LABEL` for each label, `token_count`,
        `truncated`, `model_version` and `error`: the type of an `ItemError`, whose row has nothing
        else.

        Raises:
            ImportError: pandas is not installed.
        """
        found = [item if isinstance(item, Prediction) else None for item in self]
        labels = list(
            dict.fromkeys(label for item in found if item for label in item.probabilities)
        )
        columns = {
            "label": [item and item.label for item in found],
            "score": [item and item.score for item in found],
            **{
                f"probability_{label}": [item and item.probabilities.get(label) for item in found]
                for label in labels
            },
            "token_count": [item and item.token_count for item in found],
            "truncated": [item and item.truncated for item in found],
            "model_version": [item and item.model.version for item in found],
            "error": [item.type if isinstance(item, ItemError) else None for item in self],
        }
        texts = ("label", "model_version", "error")
        numbers = ("score", *(f"probability_{label}" for label in labels))
        return frame(
            columns,
            {
                **dict.fromkeys(texts, "string"),
                **dict.fromkeys(numbers, "float64"),
                "token_count": "Int64",
                "truncated": "boolean",
            },
        )
