"""Memory of a packed encoder over batches of many sizes, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from model.backends.cpu_packed import can_pack
from model.backends.device import choose_dtype

CPU = torch.device("cpu")
# 260 sizes took 400 MB when oneDNN kept code for each of them.
SIZES = 260
MOST_GROWTH_MB = 150
PROGRAM = """
import random, sys
from pathlib import Path
import torch
from model.batch import collate
from model.config import EncoderConfig
from model.backends.device import choose_dtype
from model.encoder import build_encoder
from model.backends.cpu_packed import PackedEncoder
from model.tokenizer import Encoding

def resident():
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))

torch.set_num_threads(1)
network = build_encoder(EncoderConfig(
    vocab_size=40, hidden_size=384, num_hidden_layers=2, num_attention_heads=12,
    intermediate_size=1536, max_position_embeddings=512, labels=("negative", "positive"),
))
network.initialize(std=0.02, generator=torch.Generator().manual_seed(0))
network.eval()
packed = PackedEncoder(network, dtype=choose_dtype("auto", torch.device("cpu")))

def classify(lengths):
    texts = [Encoding([1] * length, False) for length in lengths]
    with torch.inference_mode():
        packed(collate(texts, pad_token_id=0))

classify([128] * 4)
classify([128, 127, 126, 125])
sizes = random.Random(0)
before = resident()
for _ in range(int(sys.argv[1])):
    longest = sizes.randint(3, 90)
    classify([sizes.randint(3, longest) for _ in range(sizes.randint(1, 512 // longest))])
print(resident() - before)
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory is read from /proc, which is Linux's"
)
@pytest.mark.skipif(
    not can_pack(CPU, choose_dtype("auto", CPU)), reason="torch has no oneDNN for this type here"
)
def test_many_sizes_of_batches_take_little_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(SIZES)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < MOST_GROWTH_MB
