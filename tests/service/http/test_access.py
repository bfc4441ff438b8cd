"""API keys, and the headers that let pages from elsewhere read an answer."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware

from service.http.access import (
    ApiKeys,
    challenge,
    client_of,
    cors_headers,
    explain_refusal,
    load_api_keys,
)
from service.settings import Settings, SettingsError
from tests.matching import exactly


def test_without_keys_everybody_is_admitted() -> None:
    keys = ApiKeys(frozenset())
    assert not keys
    assert keys.admits(None)
    assert keys.admits(b"Bearer anything")


@given(st.binary(max_size=40))
def test_only_a_right_key_is_admitted(authorization: bytes) -> None:
    keys = ApiKeys(frozenset({"one", "two"}))
    assert keys
    scheme, _, key = authorization.partition(b" ")
    right = scheme.lower() == b"bearer" and key.strip(b" ") in {b"one", b"two"}
    assert keys.admits(authorization) is right
    assert keys.admits(b"Bearer two")
    assert not keys.admits(None)


MISSING = "This service needs an API key: send it as Authorization: Bearer KEY"
OTHER = (
    "Authorization must be the word Bearer, a space and the key: this is another scheme, or a key "
    "alone."
)
QUOTED = "The API key stands in quotation marks: send it without them, as Bearer KEY."
UNSENDABLE = (
    "The API key holds a space, a comma or a character that is not ASCII, which no key does: send "
    "one key, as Bearer KEY."
)
WRONG = (
    "The API key is wrong: it is none of this service's keys. Check it, or ask whoever runs the "
    "service for one."
)
INVALID = 'Bearer error="invalid_token"'
REFUSALS: list[tuple[list[tuple[bytes, bytes]], str, str]] = [
    ([], f"{MISSING}.", "Bearer"),
    ([(b"x-api-key", b"one")], f"{MISSING}, not in X-API-Key.", "Bearer"),
    ([(b"api-key", b"one")], f"{MISSING}, not in Api-Key.", "Bearer"),
    (
        [(b"authorization", b"Bearer one")] * 2,
        "Authorization is given 2 times: send it once, as Bearer KEY.",
        "Bearer",
    ),
    ([(b"authorization", b"Basic b25l")], OTHER, "Bearer"),
    ([(b"authorization", b"one")], OTHER, "Bearer"),
    ([(b"authorization", b"")], OTHER, "Bearer"),
    ([(b"authorization", b"Bearer:one")], OTHER, "Bearer"),
    (
        [(b"authorization", b"Bearer")],
        "Authorization has no key behind the word Bearer: send it as Bearer KEY.",
        "Bearer",
    ),
    (
        [(b"authorization", b"bearer   ")],
        "Authorization has no key behind the word Bearer: send it as Bearer KEY.",
        "Bearer",
    ),
    ([(b"authorization", b'Bearer "one"')], QUOTED, INVALID),
    ([(b"authorization", b"Bearer one'")], QUOTED, INVALID),
    ([(b"authorization", b"Bearer one,two")], UNSENDABLE, INVALID),
    ([(b"authorization", b"Bearer \xff")], UNSENDABLE, INVALID),
    ([(b"authorization", b"Bearer three")], WRONG, INVALID),
    ([(b"authorization", b"BEARER three"), (b"x-api-key", b"one")], WRONG, INVALID),
]


@pytest.mark.parametrize(("sent", "detail", "challenged"), REFUSALS)
def test_a_refusal_says_what_to_send(
    sent: list[tuple[bytes, bytes]], detail: str, challenged: str
) -> None:
    assert (explain_refusal(sent), challenge(sent)) == (detail, challenged)


@given(st.binary(min_size=3, max_size=40).filter(lambda sent: sent not in b"Bearer Basic"))
def test_no_refusal_repeats_what_was_sent(key: bytes) -> None:
    known = {detail for _, detail, _ in REFUSALS}
    for value in (key, b"Bearer " + key):
        assert explain_refusal([(b"authorization", value)]) in known


def test_blank_settings_are_no_keys() -> None:
    # Compose files pass an unset variable on as an empty one.
    assert not load_api_keys(Settings.model_validate({"api_keys": "", "api_keys_file": " "}))


def test_a_file_without_keys_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("\n \n", encoding="utf-8")
    expected = exactly(
        "1 setting is wrong:\n  HEADLIGHT_API_KEYS_FILE: is set but holds no key; unset it to let "
        "everybody in"
    )
    with pytest.raises(SettingsError, match=expected):
        load_api_keys(Settings.model_validate({"api_keys_file": path}))


def test_keys_that_cannot_be_sent_are_refused_and_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(b"good\nb\xff\n")
    with pytest.raises(SettingsError) as refused:
        load_api_keys(Settings.model_validate({"api_keys": "fine,not fine", "api_keys_file": path}))
    assert refused.value.faults == [
        "HEADLIGHT_API_KEYS: key number 2 holds a character that is not visible ASCII, or a comma",
        f"HEADLIGHT_API_KEYS_FILE: cannot read {path}: is not UTF-8",
    ]


EXPOSED = (b"access-control-expose-headers", b"X-Request-ID, Retry-After")


@pytest.mark.parametrize(
    ("origins", "asking", "expected"),
    [
        ([], b"https://a.example", ()),
        (["https://a.example"], None, ()),
        (["https://a.example"], b"https://b.example", ()),
        (["https://a.example"], b"null", ()),
        (
            ["https://b.example", "https://a.example"],
            b"https://a.example",
            (
                EXPOSED,
                (b"access-control-allow-origin", b"https://a.example"),
                (b"vary", b"Origin"),
            ),
        ),
        (["*"], b"https://a.example", ((b"access-control-allow-origin", b"*"), EXPOSED)),
    ],
)
def test_headers_for_pages_from_elsewhere(
    origins: list[str], asking: bytes | None, expected: tuple[tuple[bytes, bytes], ...]
) -> None:
    given = [(b"host", b"c.example")] + ([] if asking is None else [(b"origin", asking)])
    cors = CORSMiddleware(Starlette(), origins, expose_headers=["X-Request-ID", "Retry-After"])
    assert tuple(cors_headers(cors, given)) == expected


KEYS = ApiKeys(frozenset({"mine", "yours"}))
PEER = ("192.0.2.1", 4711)


def headers(key: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {key}".encode())]


def test_a_client_is_a_key_else_an_address_of_a_proxy_else_a_connection() -> None:
    mine = client_of(KEYS, PEER, headers("mine"))
    assert mine == client_of(KEYS, ("192.0.2.9", 1), headers("mine"))
    assert mine != client_of(KEYS, PEER, headers("yours"))
    assert b"mine" not in str(mine).encode()
    none = ApiKeys(frozenset())
    for keys, sent in ((none, headers("mine")), (KEYS, headers("wrong")), (KEYS, [])):
        assert client_of(keys, PEER, sent) == PEER
        assert client_of(keys, PEER, sent, by_address=True) == "192.0.2.1"
        assert client_of(keys, ("192.0.2.1", 0), sent) == ("192.0.2.1", 0)
    assert client_of(KEYS, PEER, headers("mine") * 2) == PEER
    assert client_of(none, None, []) is None
