"""Compiles the kernels of `model/kernels`; pyproject.toml says everything else."""

import hashlib
from pathlib import Path

from setuptools import Extension, setup

SOURCES = sorted(path for path in Path("model/kernels").iterdir() if path.suffix in {".cpp", ".h"})
# The library tells it, so that one of other sources is not loaded (model/backends/kernels.py).
DIGEST = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()

setup(
    ext_modules=[
        Extension(
            "model.backends._kernels",
            sources=["model/kernels/encoder.cpp"],
            depends=[str(source) for source in SOURCES],
            define_macros=[("HEADLIGHT_SOURCES", f'"{DIGEST}"')],
            extra_compile_args=[
                *("-O3", "-std=c++17", "-fvisibility=hidden", "-g0"),
                # What GCC says of its own headers for AVX-512.
                *("-Wno-uninitialized", "-Wno-maybe-uninitialized"),
            ],
            language="c++",
            # Without a C++ compiler the installation goes on, and torch computes.
            optional=True,
        )
    ]
)
