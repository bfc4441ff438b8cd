"""What a process that serves never loads, and that it returns what its threads have freed."""

import sys
from pathlib import Path

import pytest

from tests.programs import run_python

# torch's compiler and the algebra that it brings take 80 MB; transformers takes more.
UNUSED = ("sympy", "torch._dynamo", "torch._inductor", "transformers", "matplotlib", "sklearn")
PROGRAM = """
import sys
from pathlib import Path
import service.command
from model import load_predictor, open_checkpoint

checkpoint = open_checkpoint(Path(sys.argv[1]))
predictor = load_predictor(checkpoint, device="cpu", dtype="float32")
predictor.warm_up()
print(predictor.info.engine, "torch" in sys.modules)
predictor.gradients.probe(predictor.encode("A superb film.", with_tokens=True))
print(*(name for name in sys.argv[2:] if name in sys.modules))
"""


def test_neither_a_compiler_nor_what_training_needs(checkpoint_folder: Path) -> None:
    done = run_python("-c", PROGRAM, checkpoint_folder, *UNUSED)
    engine, _, rest = done.stdout.partition("\n")
    assert engine.endswith("False") or engine == "eager True"
    assert rest == "\n"


ALLOCATING = """
import ctypes, threading
from pathlib import Path

from model.cli.process import return_memory, share_one_heap

def megabytes(name):
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(name))

def heaps():
    # Those of threads begin at multiples of 64 MB.
    lines = Path("/proc/self/maps").read_text(encoding="ascii").splitlines()
    anonymous = [line for line in lines if len(line.split()) == 5]
    return sum(int(line.split("-")[0], 16) % 2**26 == 0 for line in anonymous)

library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
share_one_heap()
before, pieces = heaps(), []

def fill():
    for _ in range(1000):
        pieces.append(library.malloc(100_000))
        ctypes.memset(pieces[-1], 1, 100_000)

threads = [threading.Thread(target=fill) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
last = library.malloc(100)  # so that the end of the heap is not free
held = megabytes("Rss:")
for piece in pieces:
    library.free(piece)
return_memory()
print(heaps() - before, held - megabytes("Rss:"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc and /proc are Linux's")
def test_threads_share_a_heap_and_free_memory_goes_back() -> None:
    done = run_python("-c", ALLOCATING)
    new_heaps, returned = map(int, done.stdout.split())
    assert new_heaps == 0
    assert returned > 150


OPENING = """
import sys
from pathlib import Path
from model.cli.process import open_torch

open_torch()
libraries = "libtorch_cpu.so" in Path("/proc/self/maps").read_text(encoding="ascii")
print(libraries, "torch" in sys.modules)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc and /proc are Linux's")
def test_the_libraries_of_torch_are_opened_without_an_import() -> None:
    assert run_python("-c", OPENING).stdout == "True False\n"
