"""The kernels on other processors, on other systems and under sanitizers."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
from ctypes import addressof
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.backends.eager import collate
from model.backends.kernels import KINDS, InstructionSet, instruction_sets
from model.kernels import compiler
from model.network.encoder import build_encoder
from model.types import Batch, Encoding
from tests.builders import KernelNetwork, tiny_config
from tests.model.backends.test_cpu_encoders import need_kernels

CHECK = Path(__file__).with_name("check.cpp")
# Of texts: on both sides of where blocks and panels end, and more tokens than a group has.
LENGTHS = (1, 16, 33, 5, 70, 32)
# Machines, what qemu can be of their processors, and the sets that these have.
PROCESSORS = {
    "aarch64": {
        "max": ["neon_i8mm", "neon_dotprod", "neon"],
        "neoverse-n1": ["neon_dotprod", "neon"],
        "cortex-a72": ["neon"],
    },
    "x86_64": {"Haswell": ["avx2"], "SandyBridge": []},
}


def need(what: str, *, found: bool) -> None:
    """Skips where something is not installed; in CI it must be."""
    if not found:
        (pytest.fail if "CI" in os.environ else pytest.skip)(f"{what} is not installed")


def write(file: BinaryIO, *parts: bytes | NDArray[Any] | Tensor) -> None:
    for part in parts:
        content = part.numpy().tobytes() if isinstance(part, Tensor) else bytes(part)
        file.write(len(content).to_bytes(8, "little") + content)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network in each type and packing, texts, and the results for them here; as check.cpp reads.

    A network is its addresses (the columns of a panel, its layers, its tensors), its structure, its
    layers, its tensors; then logits and weights without a head mask and with one.
    """
    need_kernels()
    sizes = {"hidden_size": 24, "intermediate_size": 36, "max_position_embeddings": max(LENGTHS)}
    network = build_encoder(tiny_config(vocab_size=40, **sizes)).eval()
    network.initialize(std=0.3, generator=torch.Generator().manual_seed(0))
    texts = [[1 + (7 * row + at) % 39 for at in range(size)] for row, size in enumerate(LENGTHS)]
    batch = collate([Encoding(text, False) for text in texts], pad_token_id=0)
    mask = torch.rand(2, len(LENGTHS), 2, generator=torch.Generator().manual_seed(1))
    masked = Batch(batch.input_ids, batch.key_padding_mask, head_mask=mask)

    path = tmp_path_factory.mktemp("recorded") / "passes"
    with path.open("wb") as file:
        write(file, np.array(LENGTHS), np.concatenate(texts), mask)
        for dtype in KINDS:
            # Where bfloat16 is not computed here, and it is nowhere computed alike.
            exact = "float32" if dtype == "bfloat16" else dtype
            results = [
                KernelNetwork(network, exact)(each, need_weights=True) for each in (batch, masked)
            ]
            for panel in (16, 32):
                packed = KernelNetwork(network, dtype, InstructionSet(panel_columns=panel)).encoder
                arrays, layers = packed._kept, packed._layers
                addresses = [panel, addressof(layers), *(each.ctypes.data for each in arrays)]
                write(file, np.array(addresses), bytes(packed._network), bytes(layers), *arrays)
                for output in results:
                    write(file, output.logits, torch.stack(output.attention_weights))
    return path


def run(*command: str | Path, **environment: str) -> list[str]:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns for each machine a program of all its sets, which needs no other library."""
    compiled = {}
    for machine in PROCESSORS:
        command = "g++" if platform.machine() == machine else f"{machine}-linux-gnu-g++"
        need(f"g++ for {machine}", found=shutil.which(command) is not None)
        compiled[machine] = tmp_path_factory.mktemp(machine) / "check"
        names = compiler.compile_library(
            compiled[machine], [command], machine=machine, options=["-static"], program=CHECK
        )
        assert names == list(compiler.SETS[machine])
    return compiled


@pytest.mark.parametrize(
    ("machine", "processor"), [(each, name) for each in PROCESSORS for name in PROCESSORS[each]]
)
def test_every_processor_computes_the_same(
    machine: str, processor: str, recorded: Path, programs: dict[str, Path]
) -> None:
    emulators = map(shutil.which, (f"qemu-{machine}", f"qemu-{machine}-static"))
    emulator = next(filter(None, emulators), None)
    need("qemu-user", found=emulator is not None)
    expected = PROCESSORS[machine][processor]
    assert run(str(emulator), "-cpu", processor, programs[machine], recorded) == expected


@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_sanitizers_find_nothing(
    sanitizers: str, recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = compiler.find_compiler()
    need("a C++ compiler", found=command is not None)
    assert command is not None
    names = [each.name for each in instruction_sets()]
    if sanitizers == "thread":
        names = names[-1:]  # threads know nothing of instructions
    sets = {
        machine: {name: options for name, options in each.items() if name in names}
        for machine, each in compiler.SETS.items()
    }
    monkeypatch.setattr(compiler, "SETS", sets)
    options = ["-Og", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    program = tmp_path / "check"
    compiled = compiler.compile_library(program, command, options=options, program=CHECK)
    assert run(program, recorded) == compiled == names


def test_a_thread_that_waits_gives_its_core_to_others(tmp_path: Path) -> None:
    command = compiler.find_compiler()
    need("a C++ compiler", found=command is not None)
    source, program = Path(__file__).with_name("wait.cpp"), tmp_path / "wait"
    run(*(command or ()), "-std=c++17", "-O1", "-pthread", source, "-o", program)
    (milliseconds,) = run(program)
    assert int(milliseconds) < 100  # of 1,000


# To link would compile the runtime of C++ for each system, for minutes; a release does.
@pytest.mark.parametrize(
    ("target", "starts"),
    [("aarch64-macos", b"\xcf\xfa\xed\xfe"), ("x86_64-windows-gnu", b"\x64\x86")],
)
def test_other_systems_are_compiled_for(target: str, starts: bytes, tmp_path: Path) -> None:
    package = compiler.COMPILER_PACKAGE
    need(package, found=importlib.util.find_spec("ziglang") is not None)
    assert package == f"ziglang=={importlib.metadata.version('ziglang')}"
    command = [*(compiler.find_compiler(cross=True) or ()), "-target", target]
    machine = target.partition("-")[0]
    options = ["-c", "-O1"]
    compiled = compiler.compile_library(
        tmp_path / "object", command, machine=machine, options=options
    )
    assert compiled == list(compiler.SETS[machine])
    assert (tmp_path / "object").read_bytes().startswith(starts)
