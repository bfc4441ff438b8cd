"""Explanations in the queue: they share passes, and fail alone."""

import asyncio
import threading

import pytest

from model import AttentionOptions, Explanation
from service.errors import InternalError
from tests.service.queueing import FAILING, HOLDING, Setting, encoding, label_of, prediction


async def test_explanations_share_passes_with_each_other_alone() -> None:
    setting = Setting(max_batch_tokens=100)
    async with setting.held():
        waiting = [
            asyncio.create_task(each)
            for each in (
                setting.batcher.predict([encoding(20)]),
                setting.batcher.explain([AttentionOptions(encoding(50))], label_of),
                setting.batcher.predict([encoding(21)]),
                setting.batcher.explain([AttentionOptions(encoding(51))], label_of),
            )
        ]
        await asyncio.sleep(0)
    assert await asyncio.gather(*waiting) == [
        [prediction(encoding(20))],
        ["50"],
        [prediction(encoding(21))],
        ["51"],
    ]
    await setting.close()
    together = setting.recorder.ids
    assert together == [[HOLDING], [20, 21], [50, 51]]
    assert setting.value("headlight_batch_texts_count") == 3


async def test_the_texts_of_one_request_come_back_in_their_order() -> None:
    setting = Setting(max_batch_tokens=100)
    questions = [
        AttentionOptions(encoding(50, 9), layers=[3], heads=[1, 2]),
        AttentionOptions(encoding(51, 3)),
    ]
    found = await setting.batcher.explain(
        questions, lambda number, each: (number, label_of(number, each), each.layers, each.heads)
    )
    assert found == [(0, "50", (3,), (1, 2)), (1, "51", (0,), (0,))]
    await setting.close()


@pytest.mark.parametrize("culprit", ["pass", "finish"])
async def test_an_explanation_that_fails_leaves_the_next_alone(culprit: str) -> None:
    def finish(_: int, __: Explanation) -> None:
        raise ValueError("told to fail")

    setting = Setting()
    identity = FAILING if culprit == "pass" else 50
    with pytest.raises(InternalError):
        await setting.batcher.explain([AttentionOptions(encoding(identity))], finish)
    assert await setting.batcher.predict([encoding(20)]) == [prediction(encoding(20))]
    first = RuntimeError if culprit == "pass" else type(None)  # finishing is no pass
    assert [type(error) for error in setting.passes] == [first, type(None)]
    assert setting.value("headlight_forward_failures_total") == (culprit == "pass")
    await setting.close()


async def test_the_first_of_a_pass_is_answered_while_the_next_is_being_finished() -> None:
    answered = threading.Event()

    def second(_: int, explanation: Explanation) -> tuple[str, bool]:
        return explanation.prediction.label, answered.wait(20)

    setting = Setting()
    async with setting.held():
        first = asyncio.create_task(
            setting.batcher.explain([AttentionOptions(encoding(1))], lambda number, _: number)
        )
        first.add_done_callback(lambda _: answered.set())
        await asyncio.sleep(0)
        last = asyncio.create_task(setting.batcher.explain([AttentionOptions(encoding(2))], second))
        await asyncio.sleep(0)
    found = await first, await last
    await setting.close()
    assert [len(batch) for batch in setting.recorder.batches] == [1, 2]
    assert found == ([0], [("2", True)])


async def test_what_cannot_be_finished_leaves_alone_who_waits_for_more() -> None:
    def fail(_: int, __: Explanation) -> None:
        raise RuntimeError("told to fail")

    setting = Setting(max_batch_tokens=8)
    async with setting.held():
        two = [AttentionOptions(encoding(1, 3)), AttentionOptions(encoding(2, 8))]
        one = asyncio.create_task(setting.batcher.explain([AttentionOptions(encoding(3, 3))], fail))
        await asyncio.sleep(0)
        both = asyncio.create_task(setting.batcher.explain(two, label_of))
        await asyncio.sleep(0)
    found: list[object] = list(await asyncio.gather(both, one, return_exceptions=True))
    await setting.close()
    assert [len(batch) for batch in setting.recorder.batches] == [1, 2, 1]
    answers, failed = found
    assert (answers, type(failed)) == (["1", "2"], InternalError)
