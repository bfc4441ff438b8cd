"""Packed passes: the network's own numbers, by a faster way."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.backends.cpu_packed import PackedEncoder, can_pack
from model.backends.device import computes_int8
from model.network.batch import Batch, collate
from model.network.config import Activation
from model.network.encoder import EncoderClassifier, build_encoder
from model.tokenization.tokenizer import Encoding
from tests.builders import tiny_checkpoint, tiny_config

CPU = torch.device("cpu")
VOCAB_SIZE = 40
PROGRAM = """
import sys
from pathlib import Path
import torch
from model import load_predictor, open_checkpoint
from model.backends import device
from model.backends.cpu_packed import can_pack

device.can_run = lambda *_: False  # the project's own kernels do not ask oneDNN
checkpoint = open_checkpoint(Path(sys.argv[1]))
for dtype in (torch.bfloat16, torch.float32):
    predictor = load_predictor(checkpoint, device=torch.device("cpu"), dtype=dtype)
    predictor.warm_up()
    print(can_pack(torch.device("cpu"), dtype), type(predictor._runner.network).__name__)
"""
# On both sides of where the kernels of attention and the rounding of sizes change.
LONG = (31, 32, 33, 40, 63, 64, 65, 128, 129)

pytestmark = pytest.mark.skipif(not can_pack(CPU, torch.float32), reason="torch has no oneDNN here")


def network(dtype: torch.dtype = torch.float32, **changes: object) -> EncoderClassifier:
    """A small network with weights large enough that all of them matter."""
    sizes = {"vocab_size": VOCAB_SIZE, "max_position_embeddings": max(LONG), **changes}
    built = build_encoder(tiny_config(**sizes))
    built.initialize(std=0.3, generator=torch.Generator().manual_seed(0))
    built.eval()
    built.compute_in(dtype)
    return built


def batch_of(lengths: list[int]) -> Batch:
    """Texts of some lengths, all different."""
    return collate(
        [
            Encoding([1 + (7 * row + place) % (VOCAB_SIZE - 1) for place in range(length)], False)
            for row, length in enumerate(lengths)
        ],
        pad_token_id=0,
    )


NETWORK = network()
PACKED = PackedEncoder(NETWORK, dtype=torch.float32)
needs_int8 = pytest.mark.skipif(not computes_int8(CPU), reason="this processor has no AVX-512 VNNI")
needs_bfloat16 = pytest.mark.skipif(
    not can_pack(CPU, torch.bfloat16), reason="oneDNN has no bfloat16 on this processor"
)
BFLOAT16 = network(torch.bfloat16)
lengths = st.lists(st.integers(1, 12), min_size=1, max_size=6) | st.lists(
    st.integers(1, 12) | st.sampled_from(LONG), min_size=1, max_size=4
)


@given(lengths)
def test_the_logits_are_those_of_the_network(lengths: list[int]) -> None:
    batch = batch_of(lengths)
    with torch.inference_mode():
        torch.testing.assert_close(
            PACKED(batch).logits, NETWORK(batch).logits, atol=1e-5, rtol=1e-5
        )


@given(lengths)
def test_the_weights_are_those_of_the_network(lengths: list[int]) -> None:
    batch = batch_of(lengths)
    with torch.inference_mode():
        packed, plain = (each(batch, need_weights=True) for each in (PACKED, NETWORK))

    torch.testing.assert_close(packed.logits, plain.logits, atol=1e-5, rtol=1e-5)
    assert len(packed.attention_weights) == len(plain.attention_weights) == 2
    for own, others in zip(packed.attention_weights, plain.attention_weights, strict=True):
        assert own.dtype == torch.float32
        for row, length in enumerate(lengths):
            # What a place without a token attends to means nothing.
            torch.testing.assert_close(
                own[row, :, :length], others[row, :, :length], atol=1e-5, rtol=1e-5
            )


@needs_bfloat16
@given(lengths)
def test_in_bfloat16_the_numbers_are_near_those_of_the_network(lengths: list[int]) -> None:
    batch = batch_of(lengths)
    packed = PackedEncoder(BFLOAT16, dtype=torch.bfloat16)
    with torch.inference_mode():
        found, expected = (each(batch, need_weights=True) for each in (packed, BFLOAT16))
        fused = packed(batch).logits

    torch.testing.assert_close(found.logits, expected.logits, atol=0.02, rtol=0)
    torch.testing.assert_close(fused, expected.logits, atol=0.02, rtol=0)
    for own, others in zip(found.attention_weights, expected.attention_weights, strict=True):
        for row, length in enumerate(lengths):
            torch.testing.assert_close(
                own[row, :, :length], others[row, :, :length], atol=0.01, rtol=0
            )


@needs_bfloat16
@pytest.mark.parametrize("longest", [64, 65, 82, 129])
def test_in_bfloat16_a_text_is_answered_alike_beside_a_long_one(longest: int) -> None:
    """Whatever kernel the longest text of a batch asks for."""
    wide = network(torch.bfloat16)
    wide.initialize(std=0.6, generator=torch.Generator().manual_seed(0))
    wide.compute_in(torch.bfloat16)
    packed = PackedEncoder(wide, dtype=torch.bfloat16)
    batch = batch_of([*range(1, 64, 3), longest])
    with torch.inference_mode():
        together = packed(batch).logits.softmax(dim=-1)
        for row, length in enumerate([*range(1, 64, 3), longest]):
            text = batch.input_ids[row : row + 1, :length]
            alone = packed(Batch(text, None)).logits.softmax(dim=-1)
            torch.testing.assert_close(together[row], alone[0], atol=0.002, rtol=0)


@needs_int8
@pytest.mark.parametrize("activation", get_args(Activation))
@given(lengths)
def test_in_bytes_the_numbers_are_near_those_of_the_network(
    activation: str, lengths: list[int]
) -> None:
    plain = network(hidden_act=activation)
    packed = PackedEncoder(plain, dtype=torch.int8)
    batch = batch_of(lengths)
    with torch.inference_mode():
        found, expected = (each(batch, need_weights=True) for each in (packed, plain))

    torch.testing.assert_close(found.logits, expected.logits, atol=0.1, rtol=0)
    for own, others in zip(found.attention_weights, expected.attention_weights, strict=True):
        for row, length in enumerate(lengths):
            torch.testing.assert_close(
                own[row, :, :length], others[row, :, :length], atol=0.1, rtol=0
            )
            torch.testing.assert_close(
                own[row, :, :length].sum(-1), torch.ones(own.shape[1], length), atol=1e-5, rtol=0
            )


@pytest.mark.parametrize("activation", get_args(Activation))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_activation(activation: str, dtype: torch.dtype) -> None:
    if not can_pack(CPU, dtype):
        pytest.skip(f"oneDNN has no {dtype} here")
    plain = network(dtype, hidden_act=activation)
    batch = batch_of([5, 9, 9])
    tolerance = 1e-5 if dtype == torch.float32 else 0.05

    with torch.inference_mode():
        torch.testing.assert_close(
            PackedEncoder(plain, dtype=dtype)(batch).logits,
            plain(batch).logits,
            atol=tolerance,
            rtol=0.0,
        )


def test_a_single_layer_is_the_first_and_the_last() -> None:
    plain = network(num_hidden_layers=1)
    batch = batch_of([5, 9, 9])

    with torch.inference_mode():
        own = PackedEncoder(plain, dtype=torch.float32)
        packed, expected = (each(batch, need_weights=True) for each in (own, plain))
        without = own(batch)

    torch.testing.assert_close(packed.logits, expected.logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(without.logits, packed.logits, atol=1e-5, rtol=1e-5)
    (weights,), (others,) = packed.attention_weights, expected.attention_weights
    torch.testing.assert_close(weights[1:], others[1:], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_shares_the_embeddings_and_copies_the_projections(dtype: torch.dtype) -> None:
    if not can_pack(CPU, dtype):
        pytest.skip(f"oneDNN has no {dtype} here")
    plain = network()
    batch = batch_of([3, 4])
    packed = PackedEncoder(plain, dtype=dtype)
    with torch.inference_mode():
        before = packed(batch).logits
        for name, parameter in plain.layers.named_parameters():
            if "intermediate" in name or "output." in name:
                parameter.zero_()
        assert torch.equal(packed(batch).logits, before)
    assert packed._embeddings[0].data_ptr() == plain.embeddings.tokens.weight.data_ptr()


def test_no_gradient_is_kept() -> None:
    output = PACKED(batch_of([3, 4]), need_weights=True)

    assert not output.logits.requires_grad
    assert not any(weights.requires_grad for weights in output.attention_weights)


def test_several_threads_at_once_get_their_own_answers() -> None:
    batches = [batch_of([length, length + 3]) for length in range(1, 9)]
    with torch.inference_mode():
        expected = [PACKED(batch).logits for batch in batches]
    found: dict[int, torch.Tensor] = {}

    def ask(place: int) -> None:
        with torch.inference_mode():
            for _ in range(50):
                found[place] = PACKED(batches[place]).logits

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for place, logits in enumerate(expected):
        torch.testing.assert_close(found[place], logits, atol=1e-6, rtol=1e-6)


def test_only_processors_are_packed_for() -> None:
    assert not can_pack(torch.device("cuda", 0), torch.float32)
    assert not can_pack(torch.device("meta"), torch.float32)


def test_a_processor_without_kernels_for_bfloat16_is_served_by_the_modules(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        cwd=Path(__file__).parents[3],
        # oneDNN then sees a processor with AVX2 only.
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "EncoderClassifier", "True", "PackedEncoder"]
