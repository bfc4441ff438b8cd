"""What is wrong with a head though the parser takes it."""

import re

from hypothesis import given
from hypothesis import strategies as st

from service.http.heads import find_fault, without_offer

HOST = (b"host", b"x")


def test_hosts() -> None:
    for version, hosts in (("1.1", 1), ("1.0", 0), ("1.0", 1)):
        assert find_fault(version, b"/", [HOST] * hosts + [(b"accept", b"host")]) is None
    for version, hosts in (("1.1", 0), ("1.1", 2), ("1.0", 2)):
        fault = find_fault(version, b"/", [HOST] * hosts)
        assert fault == f"A request has one Host header; this one has {hosts}."


@given(st.lists(st.sampled_from(["%", "%4", "%2f", "%Fa", "%%", "%zz", "a", "0", "?"]), max_size=6))
def test_escapes(parts: list[str]) -> None:
    url = "".join(["/", *parts])
    rest = re.sub("%[0-9a-fA-F][0-9a-fA-F]", "", url)
    fault = find_fault("1.1", url.encode(), [HOST])
    assert (fault is None) == ("%" not in rest)


def test_a_head_is_written_again_in_its_version_without_the_offer() -> None:
    headers = [
        HOST,
        (b"connection", b"Upgrade, keep-alive, HTTP2-Settings"),
        (b"upgrade", b"h2c"),
        (b"http2-settings", b"AAMAAABk"),
    ]
    for version in ("1.0", "1.1"):
        assert without_offer(b"GET", b"/a?b", version, headers) == (
            f"GET /a?b HTTP/{version}\r\nhost: x\r\nconnection: keep-alive\r\n\r\n".encode()
        )
