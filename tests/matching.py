"""For `pytest.raises(..., match=...)`: the whole message, not a pattern in it."""

import re


def exactly(message: str) -> str:
    return rf"\A{re.escape(message)}\Z"
