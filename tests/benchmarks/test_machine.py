"""The processor that figures hold for."""

import platform
from pathlib import Path

import pytest

from benchmarks import machine


def test_the_processor_has_its_name_where_linux_tells_it(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nmodel name\t: EPYC (R) 9\nflags\t: fpu\nmodel name\t: b\n")

    assert machine.processor(path) == "EPYC (R) 9"


@pytest.mark.parametrize("content", [None, "processor\t: 0\n"])
def test_elsewhere_it_has_its_kind(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "cpuinfo"
    if content is not None:
        path.write_text(content)

    assert machine.processor(path) == platform.machine()
