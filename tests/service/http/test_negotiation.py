"""The form that an `Accept` header gets."""

import pytest

from service.errors import NotAcceptableError
from service.http.negotiation import negotiate

JSON, SVG = "application/json", "image/svg+xml"


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ([], JSON),
        ([""], JSON),
        (["APPLICATION/JSON;charset=utf-8"], JSON),
        (["image/svg+xml, application/json"], JSON),  # of equals, the one that the service prefers
        (["image/svg+xml, application/json;q=0.9"], SVG),
        (["image/*"], SVG),
        (["*/*;q=0.1, image/svg+xml;q=0.2"], SVG),
        (["application/*;q=0.1", "image/svg+xml; q=0.2"], SVG),
        (["application/json;q=0, */*"], SVG),  # the most specific range decides
        (["text/html, */*;q=0.001"], JSON),
    ],
)
def test_chosen(accept: list[str], chosen: str) -> None:
    assert negotiate(accept, [JSON, SVG]) == chosen


@pytest.mark.parametrize(
    "accept",
    [["text/html"], ["*/*;q=0"], ["application/json;q=nonsense"], ["application/json;q=2"], ["*"]],
)
def test_refused(accept: list[str]) -> None:
    with pytest.raises(NotAcceptableError) as refused:
        negotiate(accept, [JSON])
    assert refused.value.detail == f"Accept names none of what is offered here: {JSON}."


def test_a_long_header_is_not_read() -> None:
    fits = "text/csv," * 455
    assert negotiate([fits], ["application/json", "text/csv"]) == "text/csv"
    with pytest.raises(NotAcceptableError, match=r"^Accept has 4099 characters; the limit is 4096"):
        negotiate([fits, "*/*"], ["application/json"])
