"""Compiles the kernels of this folder as one library, for this machine or another.

    python model/kernels/compiler.py OUTPUT

The library holds the passes once for each set of instructions, and chooses when it is loaded.
"""

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
COMPILER_PACKAGE = "ziglang==0.17.1"  # the compiler that pip brings, where there is no other
_ZIG = "ziglang"
_AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma")
#: options of every set of instructions by machine, the fastest first
SETS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "avx512_vnni": (*_AVX512, "-mavx512vnni", "-mavx512bf16"),
        "avx512": _AVX512,
        "avx2_vnni": ("-mavx2", "-mfma", "-mavxvnni"),
        "avx2": ("-mavx2", "-mfma"),
    },
    "aarch64": {
        "neon_i8mm": ("-march=armv8.2-a+dotprod+i8mm+bf16",),
        "neon_dotprod": ("-march=armv8.2-a+dotprod",),
        "neon": (),
    },
}
_OPTIONS = (
    *("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-g0"),
    # A product and a sum are rounded as they are written, whatever is inlined where.
    "-ffp-contract=off",
    # What GCC says of its own headers, and of vectors as arguments of a template.
    *("-Wall", "-Wextra", "-Wno-uninitialized", "-Wno-maybe-uninitialized"),
    "-Wno-ignored-attributes",
)


class CompilerError(Exception):
    """There is no compiler, or it fails."""


def find_compiler(*, cross: bool = False) -> list[str] | None:
    """Returns the words of a C++ compiler's command: $CXX, the system's, or that of `ziglang`.

    Only the last one can compile for another machine, `cross`.
    """
    if not cross:
        if named := os.environ.get("CXX"):
            return shlex.split(named)
        for name in ("g++", "clang++", "c++"):
            if shutil.which(name):
                return [name]
    if importlib.util.find_spec(_ZIG):
        # By default it compiles for the processor of this machine only.
        return [sys.executable, "-m", _ZIG, "c++", "-mcpu=baseline"]
    return None


def compile_library(
    output: Path,
    compiler: Sequence[str],
    *,
    machine: str = "",
    options: Sequence[str] = ("-shared", "-s"),
    program: Path | None = None,
) -> list[str]:
    """Compiles every set of instructions of a machine, and links them; returns their names.

    A set that the compiler does not know is left out.

    Args:
        compiler: words of its command, with the target if that is another machine.
        machine: `x86_64` or `aarch64`; this one by default.
        program: a source with `main`, linked with the kernels to a program instead of a library.

    Raises:
        CompilerError: the machine is unknown, or the compiler knows none of its sets, or fails.
    """
    name = (machine or platform.machine()).lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)
    if machine not in SETS:
        raise CompilerError(f"there are kernels for {' and '.join(SETS)}, not for {name}")
    command = [*compiler, *_OPTIONS, *options]

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:

        def compile_set(name: str) -> str:
            own = [f"-DHEADLIGHT_SET={name}", *SETS[machine][name]]
            if _ZIG in command:  # it names processors where others name architectures
                own = [option.replace("-march=armv8.2-a", "-mcpu=generic") for option in own]
            output = f"{folder}/{name}.o"
            return _run([*command, "-c", str(SOURCES / "encode.cpp"), *own, "-o", output])

        faults = dict(zip(SETS[machine], pool.map(compile_set, SETS[machine]), strict=True))
        names = [name for name, fault in faults.items() if not fault]
        if not names:
            raise CompilerError(faults.popitem()[1])
        macro = f"-DHEADLIGHT_SETS={' '.join(f'SET({name})' for name in names)}"
        parts = [str(SOURCES / "library.cpp"), *([str(program)] if program else [])]
        # With -c nothing is linked.
        # Of a function that several sets have, the first one stays: the one for most processors.
        objects = [] if "-c" in options else [f"{folder}/{name}.o" for name in reversed(names)]
        link = [*command, macro, *parts, *objects, "-pthread", "-o", output.name]
        # Some compilers write more files beside it, and the path that they are given into it.
        (linked := Path(folder) / "linked").mkdir()
        if fault := _run(link, folder=linked):
            raise CompilerError(fault)
        part = output.with_name(f"{output.name}.part")
        shutil.copy(linked / output.name, part)
        part.replace(output)
    return names


def _run(command: Sequence[str], *, folder: Path | None = None) -> str:
    """Runs a command, and returns what it printed if it failed."""
    try:
        done = subprocess.run(  # noqa: S603
            command, cwd=folder, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return str(error)
    return (done.stderr or f"exit status {done.returncode}") if done.returncode else ""


def main() -> int:
    """Compiles the library that a command names."""
    compiler = find_compiler()
    if compiler is None:
        sys.stderr.write(f"no C++ compiler: install g++, or pip install {COMPILER_PACKAGE}\n")
        return 1
    output = Path(sys.argv[1])
    try:
        names = compile_library(output, compiler)
    except CompilerError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{output}: {', '.join(names)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
