"""Memory of a packed encoder over batches of many sizes, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from model.backends.cpu_packed import can_pack
from model.backends.device import choose_dtype

CPU = torch.device("cpu")
# oneDNN keeps 1024 kernels, then drops the oldest. A pass has one thread or all, and each number of
# threads has kernels of its own.
MOST_KEPT = 1024 // 2
# Code for each of 260 sizes would take 400 MB.
SIZES = 260
PROGRAM = """
import random, sys
from pathlib import Path
import torch
from model.network.batch import collate
from model.network.config import EncoderConfig
from model.backends.device import choose_dtype
from model.network.encoder import build_encoder
from model.backends.cpu_packed import PackedEncoder
from model.tokenization.tokenizer import Encoding

torch.set_num_threads(1)
network = build_encoder(EncoderConfig(
    vocab_size=40, hidden_size=384, num_hidden_layers=2, num_attention_heads=12,
    intermediate_size=1536, max_position_embeddings=512, labels=("negative", "positive"),
))
network.initialize(std=0.02, generator=torch.Generator().manual_seed(0))
network.eval()
packed = PackedEncoder(network, dtype=choose_dtype("auto", torch.device("cpu")).dtype)

def classify(lengths):
    texts = [Encoding([1] * length, False) for length in lengths]
    with torch.inference_mode():
        packed(collate(texts, pad_token_id=0))

def classify_some(count, longest):
    for _ in range(count):
        length = sizes.randint(3, longest)
        classify([sizes.randint(3, length) for _ in range(sizes.randint(1, 512 // length))])

classify([128] * 4)
classify([128, 127, 126, 125])
sizes = random.Random(0)
"""
KERNELS = (
    PROGRAM
    + """
for length in (*range(1, 33), *range(36, 513, 4)):
    classify([length])
for count in (*range(1, 33), *range(36, 171, 4)):
    classify([3] * count)
print("all sizes were there", flush=True)
classify_some(int(sys.argv[1]), 512)
"""
)


NEEDS_ONEDNN = pytest.mark.skipif(
    not can_pack(CPU, choose_dtype("auto", CPU).dtype),
    reason="torch has no oneDNN for this type here",
)


@NEEDS_ONEDNN
def test_memory_stops_growing_when_all_sizes_were_there() -> None:
    before, _, after = _run(KERNELS, {"ONEDNN_VERBOSE": "profile_create"}).partition("all sizes")
    assert 0 < before.count("create:cache_miss") < MOST_KEPT
    assert after.count("create:cache_hit") > SIZES
    assert after.count("create:cache_miss") == 0


def _run(program: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, str(SIZES)],
        cwd=Path(__file__).parents[3],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
