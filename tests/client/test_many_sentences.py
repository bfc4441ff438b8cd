"""More sentences than one request takes, of a real service and of a scripted one."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from headlight_client import (
    AsyncClient,
    Client,
    HeadlightError,
    InvalidRequestError,
    Prediction,
    Predictions,
)
from tests.client.conftest import Ask, ask_client
from tests.client.scripted import Reply, answered, predicted, prediction, problem, scripted
from tests.end_to_end.servers import RunningService
from tests.matching import exactly

WORDS = ["good", "bad", "film", "not good", "a warm, funny film"]
TEXTS = [f"{WORDS[index % 5]} {WORDS[index // 5 % 5]}" for index in range(23)]  # of 5 at once


def limits_reply(**limits: int) -> Reply:
    members = ("name", "version", "architecture", "device", "dtype")
    numbers = ("num_layers", "num_heads", "hidden_size", "parameters", "max_length", "temperature")
    content = {**dict.fromkeys(members, "x"), **dict.fromkeys(numbers, 1), "labels": ["a", "b"]}
    return answered({**content, "metrics": [], "limits": limits})


def asked_of(requests: list[Any]) -> list[int | str]:
    """The number of sentences of each request, or its path if it had none."""
    return [
        len(json.loads(request.body)["sentences"]) if request.body else request.path
        for request in requests
    ]


def one_at_a_time(ask: Ask) -> dict[str, int]:
    """Options with which both clients send one request after the other, as a script needs it."""
    return {} if ask is ask_client else {"concurrency": 1}


def test_any_number_in_order_by_limits_that_are_asked_once(running: RunningService) -> None:
    paths: list[str] = []
    with (
        httpx.Client(event_hooks={"request": [lambda sent: paths.append(sent.url.path)]}) as http,
        Client(running.url, api_key="the-key", http_client=http) as client,
    ):
        alone = client.predict(TEXTS[:5])
        assert paths == ["/predict"]
        found = client.predict(TEXTS)  # refused, because the service takes fewer than others
        assert paths == ["/predict", "/predict", "/model", *["/predict"] * 5]
        rest = client.predict(TEXTS[5:16])
        assert paths[8:] == ["/predict"] * 3

    assert isinstance(found, Predictions)
    assert len(found) == 23
    for one, other in zip(found, [*alone, *rest], strict=False):
        assert one.label == other.label
        assert one.score == pytest.approx(other.score, abs=1e-5)


def test_more_than_any_service_takes_by_default_asks_first(ask: Ask) -> None:
    replies = [
        limits_reply(max_sentences=200),
        *(predicted(*["x"] * size) for size in (200, 200, 1)),
    ]
    with scripted(replies) as server:
        options = one_at_a_time(ask)
        found = ask(server.url, "predict", ["a"] * 401, **options)
    assert asked_of(server.requests) == ["/model", 200, 200, 1]
    assert found == [prediction("x")] * 401


COUNT = [{"loc": ["body", "sentences"], "msg": "at most 2 sentences"}]


@pytest.mark.parametrize(
    "refusal",
    [problem(422, "invalid-request", errors=COUNT), problem(413, "payload-too-large")],
    ids=["sentences", "bytes"],
)
def test_a_service_that_takes_less_is_asked_for_its_limits(ask: Ask, refusal: Reply) -> None:
    replies = [refusal, limits_reply(max_sentences=2), predicted("a", "b"), predicted("c")]
    options = one_at_a_time(ask)
    with scripted(replies) as server:
        found = ask(server.url, "predict", ["1", "2", "3"], **options)
    assert asked_of(server.requests) == [3, "/model", 2, 1]
    assert found == [prediction(label) for label in "abc"]
    # A second refusal is the end.
    with (
        scripted([refusal, limits_reply(max_sentences=3), refusal]) as server,
        pytest.raises(InvalidRequestError) as caught,
    ):
        ask(server.url, "predict", ["1", "2", "3"])
    assert asked_of(server.requests) == [3, "/model", 3]
    assert caught.value.part is None


def test_what_is_too_much_work_is_divided_again_and_again(ask: Ask) -> None:
    refusal = problem(413, "too-much-work", fits={"tokens": 2000})
    told = limits_reply(max_work_tokens=2000)
    replies = [
        *(refusal, told, predicted("a", "b"), refusal, told),
        *(predicted("c"), predicted("d")),
    ]
    sentences = ["x" * size for size in (800, 800, 800, 800)]
    with scripted(replies) as server:
        found = ask(server.url, "predict", sentences, **one_at_a_time(ask))
    assert asked_of(server.requests) == [4, "/model", 2, 2, "/model", 1, 1]
    assert found == [prediction(label) for label in "abcd"]


class Counting(httpx.AsyncBaseTransport):
    """Answers every request once `width` of them wait, and notes how many waited at most."""

    def __init__(self, width: int, requests: int) -> None:
        self.most = self.now = 0
        self._left = requests
        self._width = width
        self._full = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, content=limits_reply(max_sentences=100).content)
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now == min(self._width, self._left):
            self._full.set()
        await self._full.wait()
        self.now -= 1
        self._left -= 1
        count = len(json.loads(request.content)["sentences"])
        return httpx.Response(200, content=predicted(*["x"] * count).content)


@pytest.mark.parametrize(("concurrency", "width"), [(None, 4), (2, 2), (99, 6)])
def test_only_so_many_requests_at_once(concurrency: int | None, width: int) -> None:
    async def ask() -> tuple[list[Prediction], int]:
        transport = Counting(width, 6)
        async with httpx.AsyncClient(transport=transport) as http:
            client = AsyncClient("http://there", http_client=http)
            if concurrency is None:
                return await client.predict(["a"] * 600), transport.most
            return await client.predict(["a"] * 600, concurrency=concurrency), transport.most

    found, most = asyncio.run(ask())
    assert (len(found), most) == (600, width)
    with pytest.raises(ValueError, match=exactly("concurrency must be at least 1, got 0")):
        asyncio.run(AsyncClient("http://there").predict(["a"], concurrency=0))


def test_a_failure_gives_the_other_requests_up() -> None:
    class Failing(httpx.AsyncBaseTransport):
        cancelled = 0

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.method == "GET":
                return httpx.Response(200, content=limits_reply(max_sentences=100).content)
            if json.loads(request.content)["sentences"][0] == "fail":
                raise httpx.ReadError("broken")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                Failing.cancelled += 1
                raise
            raise AssertionError

    async def ask() -> None:
        async with httpx.AsyncClient(transport=Failing()) as http:
            client = AsyncClient("http://there", http_client=http, retries=0)
            with pytest.raises(HeadlightError) as caught:
                await client.predict(["a"] * 200 + ["fail"] * 100)
            assert caught.value.part is not None
            assert caught.value.part.start == 200
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left

    asyncio.run(ask())
    assert Failing.cancelled == 2
