"""Encoders by the kernels: the numbers of the network, by every set of instructions here."""

import os
import platform
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from model.backends.base import Selection
from model.backends.cpu_kernels import KernelBackend, can_run
from model.backends.eager import collate
from model.backends.kernels import instruction_sets, reason_unavailable
from model.checkpoint.opening import open_checkpoint
from model.kernels.compiler import SETS
from model.network.config import Activation
from model.network.encoder import EncoderClassifier, build_encoder
from model.types import Batch, ClassifierOutput, Encoding
from tests.builders import KernelNetwork, tiny_checkpoint, tiny_config
from tests.programs import run_python

VOCAB_SIZE = 40
# On both sides of where panels, tiles and groups end, and where the rounding of sizes changes.
LONG = (15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 127, 128, 129)
# How far logits and weights may be from those of the network in float32.
TOLERANCES = {"float32": (2e-5, 1e-5), "bfloat16": (0.05, 0.03), "int8": (0.1, 0.1)}
BY_KERNELS = [
    (name, dtype)
    for name, options in SETS.get(platform.machine(), {"avx2": ()}).items()
    for dtype in TOLERANCES
    if dtype != "bfloat16" or "bf16" in " ".join(options)
]
ON_KERNELS = pytest.mark.parametrize("form", BY_KERNELS, ids=str)
Form = tuple[str, str]

lengths = st.lists(st.integers(1, 12), min_size=1, max_size=6) | st.lists(
    st.integers(1, 12) | st.sampled_from(LONG), min_size=1, max_size=4
)
# Hidden size, heads, intermediate size: no multiples of 16 or 32, heads of one feature, one head.
sizes = st.sampled_from([(4, 4, 4), (8, 2, 32), (12, 3, 20), (20, 5, 12), (36, 1, 4), (40, 4, 68)])


def make(form: Form, network: EncoderClassifier) -> KernelNetwork:
    """Skips what this processor cannot compute; in CI a library of kernels must be there."""
    name, dtype = form
    need_kernels()
    chosen = next((each for each in instruction_sets() if each.name == name), None)
    if chosen is None or not chosen.can_compute(dtype):
        pytest.skip(f"this processor has no {name} for {dtype}")
    return KernelNetwork(network, dtype, chosen)


def need_kernels() -> None:
    reason = reason_unavailable()
    if reason is not None:
        excused = "CI" not in os.environ or reason.startswith("this processor")
        (pytest.skip if excused else pytest.fail)(f"no kernels: {reason} (`make install`)")


def network(**changes: object) -> EncoderClassifier:
    """A small network with weights large enough that all of them matter."""
    fields = {"vocab_size": VOCAB_SIZE, "max_position_embeddings": max(LONG), **changes}
    built = build_encoder(tiny_config(**fields))
    built.initialize(std=0.3, generator=torch.Generator().manual_seed(0))
    return built.eval()


@cache
def plain() -> EncoderClassifier:
    return network()


@cache
def served(form: Form) -> KernelNetwork:
    return make(form, plain())


@cache
def fastest() -> KernelNetwork:
    """What serves float32 here."""
    need_kernels()
    return KernelNetwork(plain())


def batch_of(lengths: Sequence[int]) -> Batch:
    """Texts of some lengths, all different."""
    return collate(
        [
            Encoding([1 + (7 * row + place) % (VOCAB_SIZE - 1) for place in range(length)], False)
            for row, length in enumerate(lengths)
        ],
        pad_token_id=0,
    )


def cut(output: ClassifierOutput, lengths: Sequence[int]) -> list[Tensor]:
    """The weights of each layer and text, without what stands for no token."""
    return [
        layer[row, :, :length]
        for layer in output.attention_weights
        for row, length in enumerate(lengths)
    ]


def check(
    own: Callable[..., ClassifierOutput],
    other: EncoderClassifier,
    lengths: Sequence[int],
    dtype: str,
) -> None:
    batch = batch_of(lengths)
    with torch.inference_mode():
        found, expected = (each(batch, need_weights=True) for each in (own, other))
        fused = own(batch)
    of_logits, of_weights = TOLERANCES[dtype]
    for output in (found, fused):
        torch.testing.assert_close(output.logits, expected.logits, atol=of_logits, rtol=1e-5)
    assert fused.attention_weights == ()
    pairs = list(zip(cut(found, lengths), cut(expected, lengths), strict=True))
    assert len(pairs) == len(other.layers) * len(lengths)
    for weights, others in pairs:
        assert weights.dtype == torch.float32
        torch.testing.assert_close(weights, others, atol=of_weights, rtol=1e-5)
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))


@ON_KERNELS
@settings(max_examples=40)
@given(lengths=lengths)
def test_the_numbers_are_those_of_the_network(form: Form, lengths: list[int]) -> None:
    check(served(form), plain(), lengths, form[1])


@ON_KERNELS
@pytest.mark.parametrize("activation", get_args(Activation))
def test_every_activation(form: Form, activation: str) -> None:
    other = network(hidden_act=activation, num_hidden_layers=1)
    check(make(form, other), other, [5, 9, 9], form[1])


@ON_KERNELS
def test_it_shares_the_embeddings_and_copies_the_projections(form: Form) -> None:
    shared = network()
    own = make(form, shared)
    assert own.encoder._network.tokens == shared.embeddings.tokens.weight.data_ptr()
    before = own(batch_of([3, 4])).logits
    with torch.no_grad():
        for name, parameter in shared.layers.named_parameters():
            if "intermediate" in name or "output." in name:
                parameter.zero_()
    assert torch.equal(own(batch_of([3, 4])).logits, before)


@ON_KERNELS
def test_several_threads_at_once_get_their_own_answers(form: Form) -> None:
    own = served(form)
    batches = [batch_of([length, 3 * length]) for length in range(1, 9)]
    expected = [own(batch).logits for batch in batches]

    def ask(place: int) -> bool:
        torch.set_num_threads(1 + place % 3)
        return all(torch.equal(own(batches[place]).logits, expected[place]) for _ in range(30))

    with ThreadPoolExecutor(len(batches)) as threads:
        assert all(threads.map(ask, range(len(batches))))


@ON_KERNELS
@settings(max_examples=40)
@given(
    sizes=sizes,
    layers=st.integers(1, 3),
    classes=st.integers(2, 5),
    activation=st.sampled_from(get_args(Activation)),
    lengths=lengths,
)
def test_networks_of_any_size(
    form: Form,
    sizes: tuple[int, int, int],
    layers: int,
    classes: int,
    activation: str,
    lengths: list[int],
) -> None:
    hidden, heads, inner = sizes
    small = network(
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=inner,
        num_hidden_layers=layers,
        hidden_act=activation,
        labels=tuple("abcde"[:classes]),
    )
    own = make(form, small)
    if form[1] == "float32":
        check(own, small, lengths, form[1])
    # In few bits a network of four features is too rough to be compared, but not to be exact.
    _check_equal(own, lengths)


def _check_equal(own: KernelNetwork, lengths: Sequence[int]) -> None:
    """Asserts the same numbers by itself and in a batch, and for any number of threads."""
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


def test_what_stands_for_no_token_has_the_weight_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory as it comes there may be anything."""
    own = fastest()
    monkeypatch.setattr(np, "empty", lambda shape, kind: np.full(shape, np.nan, kind))
    lengths = [3, 70, 9]
    output = own(batch_of(lengths), need_weights=True)
    for layer in output.attention_weights:
        for row, length in enumerate(lengths):
            assert not layer[row, :, length:].any()
            assert not layer[row, :, :, length:].any()


@settings(max_examples=20)
@given(lengths=lengths)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_every_set_of_instructions_gives_the_same_bits(dtype: str, lengths: list[int]) -> None:
    """Row sums have one order, whatever the width of a vector."""
    need_kernels()
    batch = batch_of(lengths)
    outputs = [served((each.name, dtype))(batch, need_weights=True) for each in instruction_sets()]
    for output in outputs[1:]:
        assert torch.equal(output.logits, outputs[0].logits)
        pairs = zip(cut(output, lengths), cut(outputs[0], lengths), strict=True)
        assert all(torch.equal(*pair) for pair in pairs)


@ON_KERNELS
@pytest.mark.parametrize("poison", [float("nan"), 1e30])
def test_a_text_that_overflows_leaves_the_others_as_they_are(form: Form, poison: float) -> None:
    sick = network()
    own = make(form, sick)
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


@pytest.mark.parametrize("token", [VOCAB_SIZE, -1, None])
def test_an_unknown_token_or_position_is_refused(token: int | None) -> None:
    batch = batch_of([3, 4 if token is not None else max(LONG) + 1])
    if token is not None:
        batch.input_ids[1, 3] = token
    message = r"^the network has 40 tokens and 129 positions, and the batch asks for others$"
    for need_weights in (False, True):
        with pytest.raises(IndexError, match=message):
            fastest()(batch, need_weights=need_weights)
    padding = torch.tensor([[False] * 3, [True] * 3])
    with pytest.raises(IndexError, match=message):
        fastest()(Batch(torch.ones(2, 3, dtype=torch.int64), padding))


FORK_AND_NO_MEMORY = """
import os, resource, signal, sys, warnings
import torch
from tests.model.backends.test_cpu_encoders import batch_of, fastest
own = fastest()
batch = batch_of([5, 40, 9])
torch.set_num_threads(3)
expected = own(batch).logits

warnings.simplefilter("ignore", DeprecationWarning)
for _ in range(20):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(not all(torch.equal(own(batch).logits, expected) for _ in range(20)))
    assert os.waitpid(child, 0)[1] == 0
    assert torch.equal(own(batch).logits, expected)
print("forked")

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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is Linux's")
def test_passes_end_after_a_fork_and_the_next_one_after_a_lack_of_memory() -> None:
    need_kernels()
    done = run_python("-c", FORK_AND_NO_MEMORY)
    assert done.stdout.splitlines() == [
        "forked",
        "no memory for a pass of 6000 texts of up to 129 tokens",
        "True",
    ]


def test_a_backend_runs_passes(tmp_path: Path) -> None:
    need_kernels()
    backend = KernelBackend("cpu", "float32", threads=2)
    runner = backend.load(open_checkpoint(tiny_checkpoint(tmp_path / "tiny")))
    assert (backend.workers, backend.worth_sharing_tokens) == (2, 8)
    assert not backend.computes_padding
    texts = [Encoding([1, 2, 3], False)]
    whole = runner.run(texts, Selection((0, 1), (0, 1)))
    output = runner.run(texts, Selection((1,), (0,)))
    assert [layer.shape for layer in output.weights] == [(1, 1, 3, 3)]
    np.testing.assert_array_equal(output.weights[0], whole.weights[1][:, :1])
    assert runner.run(texts).weights == ()
    np.testing.assert_array_equal(runner.run(texts).logits, whole.logits)


@pytest.mark.parametrize(("hidden", "inner"), [(8, 16), (6, 16), (8, 18)])
def test_rows_of_factors_fill_words(hidden: int, inner: int) -> None:
    need_kernels()
    config = tiny_config(hidden_size=hidden, intermediate_size=inner)
    assert can_run(config, "float32") is (hidden % 4 == inner % 4 == 0)
