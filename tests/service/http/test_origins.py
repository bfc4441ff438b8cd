"""What an answer says to pages from elsewhere."""

import pytest

from service.http.origins import Origins

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
                (b"access-control-allow-origin", b"https://a.example"),
                (b"vary", b"Origin"),
                EXPOSED,
            ),
        ),
        (["*"], b"https://a.example", ((b"access-control-allow-origin", b"*"), EXPOSED)),
    ],
)
def test_headers(
    origins: list[str], asking: bytes | None, expected: tuple[tuple[bytes, bytes], ...]
) -> None:
    given = [(b"host", b"c.example")] + ([] if asking is None else [(b"origin", asking)])
    headers = Origins(origins, exposed=["X-Request-ID", "Retry-After"]).headers(given)
    assert tuple(headers) == expected
