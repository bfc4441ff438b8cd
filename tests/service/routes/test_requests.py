"""Letting a request in, and waiting for work on behalf of a client that may leave."""

import asyncio
from collections.abc import Callable
from unittest.mock import Mock

import pytest
from starlette.requests import ClientDisconnect, Request

from service.http.transport import SENDER, Reservation
from service.routes.requests import DirectApp, unless_gone


class Connection:
    """The side of a connection that sends answers; `lose` ends it."""

    is_holding = False
    is_lost = False
    call: Callable[[], object] | None = None

    def hold(self, reservation: Reservation) -> None:
        raise AssertionError(reservation)

    def call_when_lost(self, call: Callable[[], object] | None) -> None:
        self.call = call
        if self.is_lost and call is not None:
            call()

    def lose(self) -> None:
        self.is_lost = True
        if self.call is not None:
            self.call()


class Work:
    """Work that ends when the test says so, and notes whether it was cancelled."""

    def __init__(self) -> None:
        self.result: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.is_cancelled = False

    async def run(self) -> str:
        try:
            return await self.result
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise


def request_of(connection: Connection | None) -> Request:
    scope: dict[str, object] = {"type": "http"}
    if connection is not None:
        scope[SENDER] = connection
    return Request(scope)


@pytest.mark.parametrize("connection", [Connection(), None])
async def test_the_result_of_the_work_is_returned(connection: Connection | None) -> None:
    work = Work()
    asyncio.get_running_loop().call_soon(work.result.set_result, "done")
    assert (await unless_gone(request_of(connection), work.run())) == "done"
    assert connection is None or connection.call is None


@pytest.mark.parametrize("when", ["before", "meanwhile", "with the result"])
async def test_work_for_a_client_that_leaves_is_cancelled(when: str) -> None:
    work, connection = Work(), Connection()
    loop = asyncio.get_running_loop()
    if when == "before":
        connection.lose()
    else:
        if when == "with the result":
            loop.call_soon(work.result.set_result, "done")
        loop.call_soon(connection.lose)
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(ClientDisconnect):
        await unless_gone(request_of(connection), work.run())
    assert work.is_cancelled or when != "meanwhile"
    assert connection.call is None
    # The task goes on as if it had never been cancelled.
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_a_deadline_is_no_client_that_left() -> None:
    work, connection = Work(), Connection()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await unless_gone(request_of(connection), work.run())
    assert work.is_cancelled
    assert connection.call is None


async def test_another_cancellation_finds_the_task_cancelled() -> None:
    work, connection = Work(), Connection()
    task = asyncio.ensure_future(unless_gone(request_of(connection), work.run()))
    await asyncio.sleep(0)
    task.cancel()
    connection.lose()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_description_of_the_interface_is_written_once() -> None:
    app = DirectApp(title="Headlight", version="1")
    app.describe = Mock(side_effect=lambda: b"{}")
    first, second = await asyncio.gather(app.document(), app.document())
    assert first == second == b"{}"
    assert await app.document() == b"{}"
    app.describe.assert_called_once_with()
