"""Puts columns into a table of pandas, which is imported only when one is asked for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def frame(columns: Mapping[str, Any], types: Mapping[str, str] | None = None) -> "pd.DataFrame":
    """Makes a table.

    Raises:
        ImportError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "to_dataframe needs pandas: pip install 'headlight-client[pandas]'"
        ) from error
    return pd.DataFrame(dict(columns)).astype(dict(types or {}))
