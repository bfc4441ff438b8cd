"""What every problem must look like."""

from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from service.errors import ALL_ERRORS

Loc = Sequence[str | int]
_TITLES = {error.type: error.title for error in ALL_ERRORS}


def assert_problem(
    response: httpx.Response,
    status: int,
    kind: str,
    *locs: Loc,
    says: str = "",
    foreign: bool = False,
    fits: Mapping[str, int] | None = None,
) -> None:
    """Checks a problem as a whole, headers included; its prose has tests beside the code.

    `kind` is the last word of its type, `locs` are the places of its errors, `says` is a part of
    its detail, a `foreign` one also has the member `error` of other systems, and `fits`
    is what would not be too much work.
    """
    members = response.json()
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert len(response.headers["x-request-id"]) == 32
    if foreign:
        assert members.pop("error") == members["detail"]
    assert members.pop("fits", None) == fits
    assert_members(members, status, kind, *locs, says=says, later="retry-after" in response.headers)
    if "retry_after" in members:
        assert members["retry_after"] == int(response.headers["retry-after"]) >= 1


def assert_members(
    members: Mapping[str, Any],
    status: int,
    kind: str,
    *locs: Loc,
    says: str = "",
    later: bool = False,
) -> None:
    """Checks the members of a problem, in their order; `later` ones say when to come back."""
    names = ["type", "title", "status", "detail", *["errors"] * bool(locs)]
    assert list(members) == names + ["retry_after"] * later
    assert members["type"] == f"/problems/{kind}"
    assert members["title"] == _TITLES[kind]
    assert members["status"] == status
    assert says in members["detail"]
    assert members["detail"].endswith(".")
    assert [each["loc"] for each in members.get("errors", [])] == [list(loc) for loc in locs]
    for each in members.get("errors", []):
        assert list(each) == ["loc", "msg"]
        assert each["msg"]
