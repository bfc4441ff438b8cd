"""Packed passes: the network's own numbers, by a faster way."""

import os
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given

from model.backends.cpu_packed import PackedEncoder, can_pack
from model.backends.device import computes_int8
from model.network.batch import Batch
from model.network.config import Activation
from tests.builders import tiny_checkpoint
from tests.model.backends.encoders import (
    TOLERANCES,
    batch_of,
    check,
    check_copies,
    lengths,
    network,
    plain,
)

CPU = torch.device("cpu")
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
pytestmark = pytest.mark.skipif(not can_pack(CPU, torch.float32), reason="torch has no oneDNN here")
TYPES = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)


@cache
def served(dtype: torch.dtype) -> PackedEncoder:
    need(dtype)
    return PackedEncoder(plain(), dtype=dtype)


def need(dtype: torch.dtype) -> None:
    if not can_pack(CPU, dtype) or (dtype == torch.int8 and not computes_int8(CPU)):
        pytest.skip(f"oneDNN has no {dtype} here")


@TYPES
@given(lengths=lengths)
def test_the_numbers_are_those_of_the_network(dtype: torch.dtype, lengths: list[int]) -> None:
    check(served(dtype), plain(), lengths, dtype)


@TYPES
@pytest.mark.parametrize("activation", get_args(Activation))
@pytest.mark.parametrize("layers", [1, 2])
def test_every_activation(activation: str, layers: int, dtype: torch.dtype) -> None:
    need(dtype)
    other = network(hidden_act=activation, num_hidden_layers=layers)
    check(PackedEncoder(other, dtype=dtype), other, [5, 9, 9], dtype)


@pytest.mark.parametrize("longest", [64, 65, 82, 129])
def test_in_bfloat16_a_text_is_answered_alike_beside_a_long_one(longest: int) -> None:
    """Whatever kernel the longest text of a batch asks for."""
    need(torch.bfloat16)
    wide = network()
    wide.initialize(std=0.6, generator=torch.Generator().manual_seed(0))
    packed = PackedEncoder(wide, dtype=torch.bfloat16)
    batch = batch_of([*range(1, 64, 3), longest])
    with torch.inference_mode():
        together = packed(batch).logits.softmax(dim=-1)
        for row, length in enumerate([*range(1, 64, 3), longest]):
            text = batch.input_ids[row : row + 1, :length]
            alone = packed(Batch(text, None)).logits.softmax(dim=-1)
            torch.testing.assert_close(together[row], alone[0], atol=0.002, rtol=0)


@TYPES
def test_it_shares_the_embeddings_and_copies_the_projections(dtype: torch.dtype) -> None:
    need(dtype)
    shared, packed = check_copies(lambda shared: PackedEncoder(shared, dtype=dtype))
    assert isinstance(packed, PackedEncoder)
    assert packed._embeddings[0].data_ptr() == shared.embeddings.tokens.weight.data_ptr()


def test_several_threads_at_once_get_their_own_answers() -> None:
    batches = [batch_of([length, length + 3]) for length in range(1, 9)]
    with torch.inference_mode():
        expected = [served(torch.float32)(batch).logits for batch in batches]
    found: dict[int, torch.Tensor] = {}

    def ask(place: int) -> None:
        with torch.inference_mode():
            for _ in range(50):
                found[place] = served(torch.float32)(batches[place]).logits

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
