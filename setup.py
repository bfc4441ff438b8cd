"""Compiles the kernels of `model/kernels`; pyproject.toml says everything else.

A wheel has no code for one version of Python, so it is for any. Two variables make one for another
machine: HEADLIGHT_TARGET, as compilers name it (`aarch64-linux-gnu.2.28`), and HEADLIGHT_PLATFORM,
as wheels do (`manylinux_2_28_aarch64`). HEADLIGHT_KERNELS=no leaves the kernels out.
HEADLIGHT_TORCH=none makes the distribution `headlight-serve`, which serves without torch.
"""

import os
import runpy
import sys
from collections.abc import Iterable
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

compiler = runpy.run_path("model/kernels/compiler.py")
TARGET = os.environ.get("HEADLIGHT_TARGET", "")
PLATFORM = os.environ.get("HEADLIGHT_PLATFORM", "")
WANTED = os.environ.get("HEADLIGHT_KERNELS") != "no"
FOUND = compiler["find_compiler"](cross=bool(TARGET))
KERNELS = Extension("model.backends._kernels", sources=[], optional=not TARGET)


class Kernels(build_ext):
    """Compiles one library without Python's headers."""

    def build_extension(self, ext: Extension) -> None:
        """Compiles; without a compiler the installation goes on, and torch computes."""
        if not FOUND:
            raise CompileError("no C++ compiler")
        output = Path(self.get_ext_fullpath(ext.name))
        output.parent.mkdir(parents=True, exist_ok=True)
        command = [*FOUND, *(["-target", TARGET] if TARGET else [])]
        machine = TARGET.partition("-")[0]
        try:
            names = compiler["compile_library"](output, command, machine=machine)
        except compiler["CompilerError"] as error:
            raise CompileError(str(error)) from error
        # A release must not lack what a compiler here happens not to know.
        if TARGET and names != list(compiler["SETS"][machine]):
            raise CompileError(f"of the sets of {machine} only {', '.join(names)} are compiled")

    def get_ext_filename(self, fullname: str) -> str:
        """Returns the library's path, which names no version of Python."""
        on_windows = "windows" in TARGET if TARGET else sys.platform == "win32"
        return fullname.replace(".", os.sep) + (".dll" if on_windows else ".so")


class Wheel(bdist_wheel):
    """Packs for one platform and any Python 3."""

    def get_tag(self) -> tuple[str, str, str]:
        """Returns Python, ABI and platform."""
        return "py3", "none", PLATFORM or super().get_tag()[2]


class WithoutTorch(Distribution):
    """Has another name, and does not ask for torch."""

    def parse_config_files(
        self, filenames: Iterable[str] | None = None, ignore_option_errors: bool = False
    ) -> None:
        """Reads pyproject.toml, and changes what differs."""
        super().parse_config_files(filenames, ignore_option_errors)
        self.metadata.name = "headlight-serve"
        needed = [each for each in self.install_requires if not each.startswith("torch==")]
        self.install_requires = self.metadata.install_requires = needed


setup(
    distclass=WithoutTorch if os.environ.get("HEADLIGHT_TORCH") == "none" else Distribution,
    cmdclass={"build_ext": Kernels, "bdist_wheel": Wheel},
    ext_modules=[KERNELS] if WANTED else [],
    setup_requires=[compiler["COMPILER_PACKAGE"]] if WANTED and not FOUND else [],
)
