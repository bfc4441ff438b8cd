"""What surrounds every request, in cases that no socket can cause: the very end, and bugs."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from model import open_checkpoint
from model.backends.device import choose_backend
from service.app import create_app
from service.errors import INTERNAL_DETAIL, NOT_FOUND_DETAIL, NotFoundError
from service.http.access import ApiKeys
from service.http.middleware import Lifecycle
from service.settings import Settings


def application(
    checkpoint_folder: Path,
    lifecycle: Lifecycle | None = None,
    **options: Any,  # noqa: ANN401
) -> FastAPI:
    """An application whose model never loads."""
    settings = Settings(device="cpu", request_timeout=0.2, **options)
    checkpoint = open_checkpoint(checkpoint_folder)
    backend = choose_backend(checkpoint, device="cpu", dtype="float32")
    return create_app(settings, checkpoint, backend, api_keys=ApiKeys({}), lifecycle=lifecycle)


LIFECYCLE = Lifecycle()
CANCELLED: list[str] = []


async def broken() -> None:
    raise LookupError("what the user wrote")


async def timeout() -> None:
    raise TimeoutError  # a bug, and not the deadline


async def slow() -> None:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        CANCELLED.append("slow")
        raise


async def missing() -> None:
    raise NotFoundError(NOT_FOUND_DETAIL)


async def left() -> None:
    raise ClientDisconnect


def cut_off(error: str) -> StreamingResponse:
    async def parts() -> AsyncIterator[bytes]:
        yield b"first "
        raise {"known": NotFoundError(NOT_FOUND_DETAIL), "bug": LookupError()}[error]

    return StreamingResponse(parts())


async def long() -> StreamingResponse:
    async def parts() -> AsyncIterator[bytes]:
        yield b"first "
        await asyncio.sleep(0.4)  # twice the deadline
        yield b"last"

    return StreamingResponse(parts())


@pytest.fixture(scope="module")
def app(checkpoint_folder: Path) -> FastAPI:
    app = application(
        checkpoint_folder,
        LIFECYCLE,
        allowed_origins=("https://page.example",),
        allowed_hosts=("own.example",),
    )
    for route in (broken, timeout, slow, missing, left, cut_off, long):
        app.add_api_route(f"/{route.__name__}", route, response_model=None)
    return app


@pytest.fixture
def _ended() -> Iterator[None]:
    LIFECYCLE.draining = LIFECYCLE.ended = True
    yield
    LIFECYCLE.draining = LIFECYCLE.ended = False


def get(app: FastAPI, path: str, **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://own.example") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(ask())


def count(app: FastAPI, name: str, **labels: str) -> float:
    """The value of a series; 0 before its first use."""
    return app.state.headlight.metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.mark.usefixtures("_ended")
def test_after_the_drain_time_only_health_is_answered(app: FastAPI) -> None:
    response = get(app, "/model", origin="https://page.example")
    assert response.status_code == 503
    assert response.json()["type"] == "/problems/draining"
    assert response.headers["retry-after"] == "1"
    assert response.headers["connection"] == "close"
    assert response.headers["access-control-allow-origin"] == "https://page.example"
    assert get(app, "/health/live").json() == {"status": "live"}


def test_a_bug_in_a_route_answers_500_and_is_logged_without_its_message(
    app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        response = get(app, "/broken")
    assert response.json()["detail"] == INTERNAL_DETAIL
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "a request failed"
    assert vars(record)["request_id"] == response.headers["x-request-id"]
    assert record.exc_info is not None
    assert record.exc_info[0] is LookupError


@pytest.mark.parametrize(
    ("path", "host", "status", "kind"),
    [
        ("/model", "other.example", 421, "misdirected"),
        ("/broken", "own.example", 500, "internal"),
        ("/timeout", "own.example", 500, "internal"),
        ("/slow", "own.example", 504, "timeout"),
        ("/missing", "own.example", 404, "not-found"),
        ("/nowhere", "own.example", 404, "not-found"),
        ("/predict", "own.example", 405, "method-not-allowed"),
    ],
)
def test_pages_may_read_every_problem_and_each_is_counted(
    app: FastAPI, path: str, host: str, status: int, kind: str
) -> None:
    CANCELLED.clear()
    before = count(app, "headlight_problems_total", type=kind)
    response = get(app, path, origin="https://page.example", host=host)
    assert (response.status_code, response.json()["type"]) == (status, f"/problems/{kind}")
    assert (["slow"] if status == 504 else []) == CANCELLED
    assert response.headers["access-control-allow-origin"] == "https://page.example"
    assert response.headers["vary"] == "Origin"
    assert len(response.headers["x-request-id"]) == 32
    assert count(app, "headlight_problems_total", type=kind) == before + 1


@pytest.mark.parametrize("error", ["known", "bug"])
def test_an_error_after_the_head_cuts_the_answer_off(
    app: FastAPI, caplog: pytest.LogCaptureFixture, error: str
) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(AssertionError):
        get(app, f"/cut_off?error={error}")  # the transport misses the end of the answer
    assert [record.getMessage() for record in caplog.records] == ["a request failed"]


def test_the_deadline_ends_when_the_answer_begins(app: FastAPI) -> None:
    assert get(app, "/long").text == "first last"


def test_a_client_that_left_is_counted_as_499(app: FastAPI) -> None:
    with pytest.raises(AssertionError):  # the transport misses an answer
        get(app, "/left")
    labels = {"route": "/left", "method": "GET", "status": "499"}
    assert count(app, "headlight_requests_total", **labels) == 1
