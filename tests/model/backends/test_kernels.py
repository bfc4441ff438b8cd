"""Which library of kernels is loaded, what of it is used, and what is said where there is none."""

import shutil
from pathlib import Path

import pytest
import torch

from model.backends import kernels
from model.backends.kernels import InstructionSet, choose_set, instruction_sets, reason_unavailable
from model.kernels import compiler

REAL_LOAD, REAL_DIGEST = kernels._load.__wrapped__, kernels._digest.__wrapped__
SETS = [
    InstructionSet(b"avx512_vnni", 0b111, 32),
    InstructionSet(b"avx512", 0b001, 32),
    InstructionSet(b"avx2", 0b101, 16),
]


@pytest.fixture(autouse=True)
def _any_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor with three sets, and a library of the sources that are here."""
    monkeypatch.setattr(kernels, "_load", lambda: (SETS, None))
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)


def test_the_first_set_that_has_a_type_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason_unavailable() is None
    for dtype in (torch.float32, torch.bfloat16, torch.int8):
        assert choose_set(dtype) is SETS[0]
    assert choose_set(torch.float16) is None
    monkeypatch.setattr(kernels, "_load", lambda: (SETS[1:], None))
    assert choose_set(torch.float32) is SETS[1]
    assert choose_set(torch.int8) is SETS[2]
    assert choose_set(torch.bfloat16) is None
    assert (SETS[0].name, SETS[0].family) == ("avx512_vnni", "avx512")


@pytest.mark.parametrize(
    ("limit", "names"),
    [("avx512", ["avx512_vnni", "avx512", "avx2"]), ("avx2", ["avx2"]), ("default", [])],
)
def test_the_limit_of_torch_holds_for_the_kernels(
    limit: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", limit)
    assert [each.name for each in instruction_sets()] == names


def test_a_library_of_other_sources_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its structures may be others."""
    if not kernels._LIBRARY.is_file():
        pytest.skip("the kernels are not compiled")
    monkeypatch.setattr(kernels, "InstructionSet", pytest.fail)
    monkeypatch.setattr(kernels, "_digest", lambda: "another")
    other = "they are compiled from other sources than model/kernels holds now"
    assert REAL_LOAD() == ([], other)


def test_a_change_of_the_sources_changes_their_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = REAL_DIGEST()
    sources = shutil.copytree(Path(compiler.__file__).parent, tmp_path / "kernels")
    monkeypatch.setattr(kernels, "_COMPILER", sources / "compiler.py")
    assert REAL_DIGEST() == before
    with (sources / "team.h").open("a", encoding="utf-8") as file:
        file.write("\n")
    assert REAL_DIGEST() not in {None, before}
    shutil.rmtree(sources)
    # Where the sources are not, the library is taken as it is.
    assert REAL_DIGEST() is None


def test_the_library_lacks_no_set_that_the_processor_has() -> None:
    """A set that does not compile is left out, and the tests of it are skipped."""
    sets, reason = REAL_LOAD()
    if reason is not None:
        pytest.skip(reason)
    processor = torch.cpu.get_capabilities()
    wanted = {name for name in ("avx2", "avx512_vnni") if processor.get(name, False)}
    assert wanted <= {each.name for each in sets}
