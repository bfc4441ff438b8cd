"""Which library of kernels is loaded, what of it is used, and what is said where there is none."""

import pytest
import torch

from model.backends import kernels
from model.backends.kernels import InstructionSet, choose_set, instruction_sets, reason_unavailable

REAL_LOAD = kernels._load.__wrapped__
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
    for dtype in ("float32", "bfloat16", "int8"):
        assert choose_set(dtype) is SETS[0]
    assert choose_set("float16") is None
    monkeypatch.setattr(kernels, "_load", lambda: (SETS[1:], None))
    assert choose_set("float32") is SETS[1]
    assert choose_set("int8") is SETS[2]
    assert choose_set("bfloat16") is None
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
    monkeypatch.setattr(kernels, "_SIZES", [0, 0, 0])
    other = "they are compiled from other sources: compile them again (make install)"
    assert REAL_LOAD() == ([], other)


def test_the_library_lacks_no_set_that_the_processor_has() -> None:
    """A set that does not compile is left out, and the tests of it are skipped."""
    sets, reason = REAL_LOAD()
    if reason is not None:
        pytest.skip(reason)
    processor = torch.cpu.get_capabilities()
    wanted = {name for name in ("avx2", "avx512_vnni") if processor.get(name, False)}
    assert wanted <= {each.name for each in sets}
