"""What surrounds every request, in cases that no socket can cause: the very end, and bugs."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import torch
from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from model import open_checkpoint
from model.backends.device import choose_backend
from service.app import create_app
from service.errors import INTERNAL_DETAIL, NOT_FOUND_DETAIL, NotFoundError
from service.http.gate import ApiKeys
from service.http.middleware import Lifecycle
from service.settings import Settings


def application(
    checkpoint_folder: Path, lifecycle: Lifecycle | None = None, **options: tuple[str, ...]
) -> FastAPI:
    """An application whose model never loads."""
    settings = Settings(device="cpu", request_timeout=0.2, **options)  # type: ignore[arg-type]
    checkpoint = open_checkpoint(checkpoint_folder)
    backend = choose_backend(checkpoint, device=torch.device("cpu"), dtype=torch.float32)
    return create_app(
        settings, checkpoint, backend, api_keys=ApiKeys(frozenset()), lifecycle=lifecycle
    )


def get(app: FastAPI, path: str, **headers: str) -> httpx.Response:
    """Asks an application in this process."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(ask())


def test_after_the_drain_time_only_health_is_answered(checkpoint_folder: Path) -> None:
    app = application(checkpoint_folder, Lifecycle(draining=True, ended=True))
    response = get(app, "/model")
    assert response.status_code == 503
    assert response.json()["type"] == "/problems/draining"
    assert response.headers["retry-after"] == "1"
    assert response.headers["connection"] == "close"
    assert get(app, "/health/live").json() == {"status": "live"}


def test_a_bug_in_a_route_answers_500_and_is_logged_without_its_message(
    checkpoint_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = application(checkpoint_folder)

    async def broken() -> None:
        raise LookupError("what the user wrote")

    app.add_api_route("/broken", broken)
    with caplog.at_level(logging.INFO):
        response = get(app, "/broken")
    assert response.status_code == 500
    assert response.json() == {
        "type": "/problems/internal",
        "title": "The service failed",
        "status": 500,
        "detail": INTERNAL_DETAIL,
    }
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "a request failed"
    assert vars(record)["request_id"] == response.headers["x-request-id"]
    assert record.exc_info is not None
    assert record.exc_info[0] is LookupError


@pytest.mark.parametrize(
    ("ended", "path", "host", "status"),
    [
        (True, "/model", "own.example", 503),
        (False, "/model", "other.example", 421),
        (False, "/broken", "own.example", 500),
        (False, "/timeout", "own.example", 500),
        (False, "/slow", "own.example", 504),
        (False, "/late", "own.example", 404),
        (False, "/nowhere", "own.example", 404),
        (False, "/predict", "own.example", 405),
    ],
)
def test_pages_may_read_every_problem_and_each_is_counted(
    checkpoint_folder: Path, path: str, host: str, status: int, *, ended: bool
) -> None:
    app = application(
        checkpoint_folder,
        Lifecycle(ended=ended),
        allowed_origins=("https://page.example",),
        allowed_hosts=("own.example",),
    )

    async def broken() -> None:
        raise LookupError

    async def timeout() -> None:
        raise TimeoutError  # a bug, and not the deadline

    cancelled: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append("slow")
            raise

    async def late() -> None:
        raise NotFoundError(NOT_FOUND_DETAIL)

    for route in (broken, timeout, slow, late):
        app.add_api_route(f"/{route.__name__}", route)

    response = get(app, path, origin="https://page.example", host=host)

    assert response.status_code == status
    assert cancelled == (["slow"] if status == 504 else [])
    assert response.headers["access-control-allow-origin"] == "https://page.example"
    assert response.headers["vary"] == "Origin"
    assert len(response.headers["x-request-id"]) == 32
    registry = app.state.headlight.metrics.registry
    labels = {"type": response.json()["type"].removeprefix("/problems/")}
    assert registry.get_sample_value("headlight_problems_total", labels) == 1


@pytest.mark.parametrize("error", [NotFoundError(NOT_FOUND_DETAIL), LookupError()])
def test_an_error_after_the_head_cuts_the_answer_off(
    checkpoint_folder: Path, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    app = application(checkpoint_folder)

    async def late() -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"first "
            raise error

        return StreamingResponse(parts())

    app.add_api_route("/late", late)
    with caplog.at_level(logging.ERROR), pytest.raises(AssertionError):
        get(app, "/late")  # the transport misses the end of the answer
    assert [record.getMessage() for record in caplog.records] == ["a request failed"]


def test_the_deadline_ends_when_the_answer_begins(checkpoint_folder: Path) -> None:
    app = application(checkpoint_folder)

    async def slow() -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"first "
            await asyncio.sleep(0.4)  # twice the deadline
            yield b"last"

        return StreamingResponse(parts())

    app.add_api_route("/slow", slow)
    assert get(app, "/slow").text == "first last"


def test_a_client_that_left_is_counted_as_499(checkpoint_folder: Path) -> None:
    app = application(checkpoint_folder)

    async def left() -> None:
        raise ClientDisconnect

    app.add_api_route("/left", left)
    with pytest.raises(AssertionError):  # the transport misses an answer
        get(app, "/left")
    labels = {"route": "/left", "method": "GET", "status": "499"}
    registry = app.state.headlight.metrics.registry
    assert registry.get_sample_value("headlight_requests_total", labels) == 1


async def test_two_large_bodies_at_most_are_parsed_at_once(checkpoint_folder: Path) -> None:
    """Each takes memory; by default asyncio would run more of them on more cores."""
    app = application(checkpoint_folder)
    running: list[int] = []
    two_run, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        running.append(1)
        if len(running) == 2:
            two_run.set()
        go_on.wait(60)

    async with app.router.lifespan_context(app):
        held = [asyncio.create_task(asyncio.to_thread(hold)) for _ in range(5)]
        await asyncio.sleep(0)  # they begin
        two_run.wait(60)
        await asyncio.sleep(0.1)
        assert len(running) == 2
        go_on.set()
        await asyncio.gather(*held)
    assert len(running) == 5
