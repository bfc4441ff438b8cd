"""What a process that serves never loads into its memory."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# torch's compiler and the algebra that it brings take 80 MB; transformers takes more.
UNUSED = ("sympy", "torch._dynamo", "torch._inductor", "transformers", "matplotlib", "sklearn")
PROGRAM = """
import sys
from pathlib import Path
import torch
import service.command
from model import load_predictor, open_checkpoint
from model.backends.device import choose_dtype

device = torch.device("cpu")
checkpoint = open_checkpoint(Path(sys.argv[1]))
predictor = load_predictor(checkpoint, device=device, dtype=choose_dtype("auto", device))
predictor.warm_up()
predictor.gradients.probe(predictor.encode("A superb film.", with_tokens=True))
print(*(name for name in sys.argv[2:] if name in sys.modules))
"""


def test_neither_a_compiler_nor_what_training_needs(checkpoint_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(checkpoint_folder), *UNUSED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "\n"
