"""Several passes at once: which worker takes what."""

import asyncio
import threading

import pytest

from model import AttentionOptions, Explanation
from service.queue.admission import ClientId
from service.queue.work_items import Job
from tests.service.queueing import Setting, encoding, label_of


@pytest.mark.parametrize("cores", [None, 1])
async def test_as_many_passes_run_at_once_as_there_are_workers(cores: int | None) -> None:
    """Also on a device that computes apart, with its one core."""
    meeting = threading.Barrier(3, timeout=20)

    def meet(number: int, explanation: Explanation) -> str:
        meeting.wait()  # breaks unless all three are in their passes
        return label_of(number, explanation)

    setting = Setting(workers=3, cores=cores)
    # Too long to share a pass.
    questions = [AttentionOptions(encoding(number, 300)) for number in (50, 51, 52)]
    labels = await asyncio.gather(*(setting.batcher.explain([each], meet) for each in questions))
    assert labels == [["50"], ["51"], ["52"]]
    await setting.close()


async def test_what_waits_is_shared_among_the_workers() -> None:
    setting = Setting(max_batch_tokens=1000, workers=2)
    await setting.batcher.predict([encoding(20 + number, 10) for number in range(40)])
    await setting.close()
    assert max([len(batch) for batch in setting.recorder.batches]) == 20


async def test_on_a_device_that_computes_apart_a_batch_is_not_cut_for_the_workers() -> None:
    setting = Setting(max_batch_tokens=1000, workers=3, cores=1)
    await setting.batcher.predict([encoding(20 + number, 10) for number in range(40)])
    assert set(setting.threads) == {1}
    await setting.close()
    assert [len(batch) for batch in setting.recorder.batches] == [40]


async def test_a_long_text_that_comes_alone_has_all_threads() -> None:
    setting = Setting(max_batch_tokens=1000, workers=4)
    await setting.batcher.predict([encoding(20, 300)])
    async with setting.held():
        await setting.batcher.run([Job(lambda: None)])
    await setting.close()
    first, *others = setting.threads
    assert first == 4
    assert set(others) == {1}


async def test_a_light_request_passes_heavy_ones_that_keep_all_cores_busy() -> None:
    setting = Setting(max_batch_tokens=1000, workers=2, extra=True)
    recorder = setting.recorder
    recorder.gate.clear()
    heavy = [encoding(20 + number, 300) for number in range(6)]
    waiting = [asyncio.create_task(setting.batcher.predict(heavy))]
    for _ in range(2):
        assert await asyncio.to_thread(recorder.entered.acquire, timeout=20)
    light = setting.batcher.predict([encoding(30, 10)], caller=ClientId("another"))
    waiting.append(asyncio.create_task(light))
    assert await asyncio.to_thread(recorder.entered.acquire, timeout=20)
    begun = [[text.input_ids[0] for text in batch] for batch in recorder.begun]
    recorder.gate.set()
    await asyncio.gather(*waiting)
    await setting.close()
    *before, last = begun
    assert last == [30]
    assert {identity for batch in before for identity in batch} < set(range(20, 26))
