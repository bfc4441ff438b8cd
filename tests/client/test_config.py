"""What a client can be made with, and what it cannot."""

from typing import Any

import numpy as np
import pytest

from headlight_client.config import ClientConfig
from tests.matching import exactly

URL = "base_url must be like http://127.0.0.1:8000, without query and fragment, got "
TIMEOUT = "timeout must be a number of seconds above 0 and below 1e9, got "
KEY = "api_key must be printable ASCII without spaces around it"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"base_url": "there:8000"}, f"{URL}'there:8000'"),
        ({"base_url": "http://"}, f"{URL}'http://'"),
        ({"base_url": "http://there/?a=1"}, f"{URL}'http://there/?a=1'"),
        ({"base_url": "http://there?"}, f"{URL}'http://there?'"),
        ({"base_url": "http://there/#"}, f"{URL}'http://there/#'"),
        ({"base_url": "http://a:b@there"},
         "base_url holds a user or a password: give the key as api_key instead"),
        ({"timeout": 0}, f"{TIMEOUT}0"),
        ({"timeout": float("nan")}, f"{TIMEOUT}nan"),
        ({"retries": -1}, "retries must be 0 or more, got -1"),
        ({"api_key": ""}, KEY),
        ({"api_key": "key\n"}, KEY),
        ({"api_key": "schlüssel"}, KEY),
    ],
)  # fmt: skip
def test_what_a_client_cannot_be_made_with(change: dict[str, Any], message: str) -> None:
    given = {"base_url": "http://there", "api_key": None, "timeout": 1.0, "retries": 0, **change}
    with pytest.raises(ValueError, match=exactly(message)):
        ClientConfig(**given)


def test_a_service_below_a_path() -> None:
    config = ClientConfig("https://there/headlight/", api_key="k", timeout=1.0, retries=0)
    assert config.address == "https://there/headlight"
    assert config.headers["Authorization"] == "Bearer k"


def test_retries_are_a_whole_number() -> None:
    given: Any = {"api_key": None, "timeout": 1.0}
    two: Any = np.int64(2)
    assert type(ClientConfig("http://there", retries=two, **given).retries) is int
    message = exactly("retries takes whole numbers, got 1.5: give an int")
    with pytest.raises(TypeError, match=message):
        ClientConfig("http://there", retries=1.5, **given)  # type: ignore[arg-type]
