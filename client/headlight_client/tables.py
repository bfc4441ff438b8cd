"""Puts columns into a table of pandas, which is imported only when one is asked for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headlight_client.answers import Token, shortened

if TYPE_CHECKING:
    import pandas as pd


class HoldsTokens:
    """What all answers about the tokens of one sentence have in common."""

    __slots__ = ()

    tokens: tuple[Token, ...]

    @property
    def texts(self) -> list[str]:
        """The text of each token, as plots and BertViz expect them."""
        return [token.text for token in self.tokens]

    @property
    def _shown(self) -> str:
        return repr(shortened(" ".join(self.texts)))

    def _token_columns(self, *names: str) -> dict[str, Any]:
        return {name: [getattr(token, name) for token in self.tokens] for name in names}


def index_of(values: object) -> Any:  # noqa: ANN401 - an index of pandas, which may be missing
    """Returns the index of a Series; None for a list, whose `index` is a method."""
    index = getattr(values, "index", None)
    return None if callable(index) else index


def frame(
    columns: Mapping[str, Any],
    types: Mapping[str, str] | None = None,
    index: Any = None,  # noqa: ANN401
) -> "pd.DataFrame":
    """Makes a table, whose rows are numbered from 0 without an index.

    Raises:
        ImportError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "to_dataframe needs pandas: pip install 'headlight-client[pandas]'"
        ) from error
    return pd.DataFrame(dict(columns), index=index).astype(dict(types or {}))
