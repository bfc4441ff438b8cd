"""What every problem must look like."""

import httpx


def assert_problem(
    response: httpx.Response,
    status: int,
    kind: str,
    title: str,
    detail: str,
    *,
    errors: list[dict[str, object]] | None = None,
    retry_after: int | None = None,
) -> None:
    """Compares a whole problem, headers included."""
    expected: dict[str, object] = {
        "type": f"/problems/{kind}",
        "title": title,
        "status": status,
        "detail": detail,
    }
    if errors is not None:
        expected["errors"] = errors
    if retry_after is not None:
        expected["retry_after"] = retry_after
    assert response.status_code == status
    assert response.json() == expected
    assert list(response.json()) == list(expected)
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers.get("retry-after") == (
        None if retry_after is None else str(retry_after)
    )
    assert len(response.headers["x-request-id"]) == 32


def error(*loc: str | int, msg: str) -> dict[str, object]:
    """One entry of `errors`."""
    return {"loc": list(loc), "msg": msg}
