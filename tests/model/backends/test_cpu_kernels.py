"""Passes by the project's own kernels: the network's numbers, and the same ones every time."""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model import open_checkpoint
from model.backends.base import Selection
from model.backends.cpu_kernels import KernelBackend, KernelEncoder, ShortAndLong, can_run
from model.backends.cpu_packed import PackedEncoder, can_pack
from model.backends.device import choose_backend
from model.backends.kernels import KINDS, can_compute, fault
from model.network.batch import Batch
from model.network.classifier import ClassifierOutput
from model.network.config import Activation
from model.tokenization.tokenizer import Encoding
from tests.builders import tiny_checkpoint, tiny_config
from tests.model.backends.encoders import (
    LONG,
    TOLERANCES,
    VOCAB_SIZE,
    batch_of,
    check,
    check_copies,
    cut,
    lengths,
    network,
    plain,
)

CPU = torch.device("cpu")
TYPES = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)

# Hidden size, heads, intermediate size: no multiples of 16 or 32, heads of one feature, one head.
sizes = st.sampled_from([(4, 4, 4), (8, 2, 32), (12, 3, 20), (20, 5, 12), (36, 1, 4), (40, 4, 68)])


@pytest.fixture(autouse=True, scope="module")
def _kernels() -> None:
    """Skips where the processor has no AVX-512; in CI a library must be there."""
    reason = fault()
    if reason is not None:
        excused = "CI" not in os.environ or reason.startswith("this processor")
        (pytest.skip if excused else pytest.fail)(f"no kernels: {reason} (`make install`)")


def need(dtype: torch.dtype) -> None:
    if not can_compute(dtype):
        pytest.skip(f"this processor has no kernels for {dtype}")


@cache
def served(dtype: torch.dtype) -> KernelEncoder:
    return KernelEncoder(plain(), dtype=dtype)


@TYPES
@given(lengths=lengths)
def test_the_numbers_are_those_of_the_network(dtype: torch.dtype, lengths: list[int]) -> None:
    need(dtype)
    check(served(dtype), plain(), lengths, dtype)


@TYPES
@given(
    sizes=sizes,
    layers=st.integers(1, 3),
    classes=st.integers(2, 5),
    activation=st.sampled_from(get_args(Activation)),
    lengths=lengths,
)
def test_networks_of_any_size(
    dtype: torch.dtype,
    sizes: tuple[int, int, int],
    layers: int,
    classes: int,
    activation: str,
    lengths: list[int],
) -> None:
    need(dtype)
    hidden, heads, inner = sizes
    small = network(
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=inner,
        num_hidden_layers=layers,
        hidden_act=activation,
        labels=tuple("abcde"[:classes]),
    )
    own = KernelEncoder(small, dtype=dtype)

    if dtype == torch.float32:
        check(own, small, lengths, dtype)
    # In few bits a network of four features is too rough to be compared, but not to be exact.
    _check_equal(own, lengths)


@TYPES
@pytest.mark.parametrize("activation", get_args(Activation))
def test_every_activation(activation: str, dtype: torch.dtype) -> None:
    need(dtype)
    other = network(hidden_act=activation)
    check(KernelEncoder(other, dtype=dtype), other, [5, 9, 9], dtype)


def _check_equal(own: KernelEncoder, lengths: Sequence[int]) -> None:
    """Asserts that nothing but a text itself has a say in its numbers."""
    batch = batch_of(lengths)
    explained = own(batch, need_weights=True)
    maps = cut(explained, lengths)
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        assert torch.equal(own(batch).logits, explained.logits)
        again = own(batch, need_weights=True)
        assert torch.equal(again.logits, explained.logits)
        assert all(map(torch.equal, cut(again, lengths), maps))
    for row, length in enumerate(lengths):
        alone = own(Batch(batch.input_ids[row : row + 1, :length], None), need_weights=True)
        assert torch.equal(alone.logits[0], explained.logits[row])
        of_row = maps[row :: len(lengths)]
        for layer, weights in zip(alone.attention_weights, of_row, strict=True):
            assert torch.equal(layer[0], weights[:, :, :length])
            assert not weights[:, :, length:].any()


@TYPES
@given(lengths=lengths)
def test_a_text_has_exactly_one_answer(dtype: torch.dtype, lengths: list[int]) -> None:
    """Alone and in a batch, with weights and without, on one thread and on several."""
    need(dtype)
    _check_equal(served(dtype), lengths)


@TYPES
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e30])
def test_a_text_that_overflows_leaves_the_others_as_they_are(
    dtype: torch.dtype, poison: float
) -> None:
    need(dtype)
    sick = network()
    own = KernelEncoder(sick, dtype=dtype)
    lengths = [3, 9, 70, 5]
    batch = batch_of(lengths)
    batch.input_ids[batch.input_ids == 8] = 7
    batch.input_ids[1, 4] = 8  # a token of the second text alone
    before = own(batch, need_weights=True)
    with torch.no_grad():
        sick.embeddings.tokens.weight[8, ::2] = poison

    after = own(batch, need_weights=True)

    assert not after.logits[1].isfinite().any()
    sound = [0, 2, 3]
    assert torch.equal(after.logits[sound], before.logits[sound])
    assert torch.equal(own(batch).logits[sound], before.logits[sound])
    pairs = list(zip(cut(after, lengths), cut(before, lengths), strict=True))
    for at, (weights, others) in enumerate(pairs):
        assert torch.equal(weights, others) is (at % len(lengths) in sound)


@TYPES
@pytest.mark.parametrize("token", [VOCAB_SIZE, -1])
def test_an_unknown_token_is_refused(dtype: torch.dtype, token: int) -> None:
    need(dtype)
    batch = batch_of([3, 4])
    batch.input_ids[1, 3] = token
    message = r"^the network has 40 tokens and 129 positions, and the batch asks for others$"
    with pytest.raises(IndexError, match=message):
        served(dtype)(batch)


def test_a_text_of_too_many_tokens_is_refused_and_nothing_is_written() -> None:
    own = served(torch.float32)
    with pytest.raises(IndexError):
        own(batch_of([3, max(LONG) + 1]), need_weights=True)
    logits = torch.full((1, 2), 7.0)
    ids = torch.tensor([1, 2, VOCAB_SIZE])
    for count, longest in ((3, 3), (0, 3), (2, 1)):
        fault = own._encode(
            own._network,
            ids.data_ptr(),
            torch.tensor([count]).data_ptr(),
            1,
            1,
            logits.data_ptr(),
            None,
            longest,
            None,
        )
        assert fault == 1
    assert torch.equal(logits, torch.full((1, 2), 7.0))


@TYPES
def test_several_threads_at_once_get_their_own_answers(dtype: torch.dtype) -> None:
    """Of which one at a time has the team's helpers."""
    need(dtype)
    own = served(dtype)
    batches = [batch_of([length, 3 * length]) for length in range(1, 9)]
    expected = [own(batch).logits for batch in batches]
    wrong: list[int] = []

    def ask(place: int) -> None:
        torch.set_num_threads(1 + place % 3)
        for _ in range(100):
            if not torch.equal(own(batches[place]).logits, expected[place]):
                wrong.append(place)

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


PRELUDE = """
import os, resource, signal, sys, warnings
import torch
from tests.model.backends.encoders import batch_of
from tests.model.backends.test_cpu_kernels import served
own = served(torch.float32)
batch = batch_of([5, 40, 9])
torch.set_num_threads(3)
expected = own(batch).logits
"""
FORK = """
warnings.simplefilter("ignore", DeprecationWarning)
for _ in range(20):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(not all(torch.equal(own(batch).logits, expected) for _ in range(20)))
    assert os.waitpid(child, 0)[1] == 0
    assert torch.equal(own(batch).logits, expected)
print("done")
"""
NO_MEMORY = """
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
large = batch_of([129] * 6000)
resource.setrlimit(resource.RLIMIT_AS, (used + 40_000_000, resource.RLIM_INFINITY))
try:
    own(large)
except MemoryError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(torch.equal(own(batch).logits, expected))
"""


def _run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_after_a_fork_passes_end_with_the_same_answers() -> None:
    assert _run(FORK) == "done"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is Linux's")
def test_without_memory_a_pass_fails_and_the_next_one_works() -> None:
    assert _run(NO_MEMORY).splitlines() == [
        "no memory for a pass of 6000 texts of up to 129 tokens",
        "True",
    ]


@TYPES
def test_it_shares_the_embeddings_and_copies_the_projections(dtype: torch.dtype) -> None:
    need(dtype)
    shared, own = check_copies(lambda shared: KernelEncoder(shared, dtype=dtype))
    assert isinstance(own, KernelEncoder)
    assert own._network.tokens == shared.embeddings.tokens.weight.data_ptr()


@pytest.mark.skipif(not can_pack(CPU, torch.float32), reason="torch has no oneDNN here")
def test_by_its_tokens_a_pass_is_short_or_long() -> None:
    called: list[str] = []

    class Noted(KernelEncoder):
        def __call__(self, batch: Batch, *, need_weights: bool = False) -> ClassifierOutput:
            called.append("short")
            return super().__call__(batch, need_weights=need_weights)

    class NotedLong(PackedEncoder):
        def __call__(self, batch: Batch, *, need_weights: bool = False) -> ClassifierOutput:
            called.append("long")
            return super().__call__(batch, need_weights=need_weights)

    both = ShortAndLong(
        Noted(plain(), dtype=torch.float32), NotedLong(plain(), dtype=torch.float32)
    )
    with torch.inference_mode():
        for lengths in ([48], [24, 20], [49], [25, 2]):
            assert len(both(batch_of(lengths), need_weights=True).attention_weights) == 2
    assert called == ["short", "short", "long", "long"]


@pytest.mark.parametrize(("amx", "kind"), [(False, KernelEncoder), (True, ShortAndLong)])
def test_with_amx_long_passes_are_left_to_onednn(
    amx: bool, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(torch.bfloat16)
    capabilities = {**torch.cpu.get_capabilities(), "amx_bf16": amx}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    backend = KernelBackend(CPU, torch.bfloat16, threads=2)

    runner = backend.load(network(), pad_token_id=0, num_heads=2)

    assert type(runner.network) is kind
    assert (backend.workers, backend.worth_sharing_tokens) == (2, 8)
    assert not backend.computes_padding
    batch = runner.prepare([Encoding([1, 2, 3], False)])
    output = runner.to_host(runner.explain(batch, Selection((1,), (0,))))
    assert [layer.shape for layer in output.weights] == [(1, 1, 3, 3)]


def test_the_kernels_are_chosen_where_they_compute(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_checkpoint(tmp_path / "tiny"))
    for dtype in KINDS:
        if can_compute(dtype):
            assert type(choose_backend(checkpoint, device=CPU, dtype=dtype)) is KernelBackend


@pytest.mark.parametrize(
    ("hidden", "inner", "runs"), [(8, 16, True), (12, 4, True), (6, 16, False), (8, 18, False)]
)
def test_rows_of_factors_fill_words(hidden: int, inner: int, runs: bool) -> None:
    config = tiny_config(hidden_size=hidden, intermediate_size=inner)
    assert can_run(config, torch.float32) is runs
