"""Which library of kernels is loaded, what of it is used, and what is said where there is none."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from model.backends import kernels
from model.backends.kernels import InstructionSet, choose_set, fault, instruction_sets
from model.kernels import compiler

REAL_LOAD, REAL_DIGEST = kernels._load.__wrapped__, kernels._digest.__wrapped__
SETS = [
    InstructionSet(b"avx512_vnni", 0b111, 32),
    InstructionSet(b"avx512", 0b001, 32),
    InstructionSet(b"avx2", 0b101, 16),
]
LOADED = SimpleNamespace(headlight_sources=lambda: b"digest"), SETS


@pytest.fixture(autouse=True)
def _any_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor with three sets, and a library of the sources that are here."""
    monkeypatch.setattr(kernels, "_load", lambda: LOADED)
    monkeypatch.setattr(kernels, "_digest", lambda: "digest")
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)


def test_the_first_set_that_has_a_type_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fault() is None
    assert instruction_sets() == SETS
    for dtype in (torch.float32, torch.bfloat16, torch.int8):
        assert choose_set(dtype) is SETS[0]
    assert choose_set(torch.float16) is None
    monkeypatch.setattr(kernels, "_load", lambda: (LOADED[0], SETS[1:]))
    assert choose_set(torch.float32) is SETS[1]
    assert choose_set(torch.int8) is SETS[2]
    assert choose_set(torch.bfloat16) is None
    assert [(each.name, each.family) for each in SETS[1:]] == [
        ("avx512", "avx512"),
        ("avx2", "avx2"),
    ]


@pytest.mark.parametrize(
    ("limit", "names"),
    [("avx512", ["avx512_vnni", "avx512", "avx2"]), ("avx2", ["avx2"]), ("default", [])],
)
def test_the_limit_of_torch_holds_for_the_kernels(
    limit: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", limit)
    assert [each.name for each in instruction_sets()] == names


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("_load", (None, []), "they are not compiled"),
        ("_load", (LOADED[0], []), "this processor has no AVX2"),
        (
            "_digest",
            "another",
            "they are compiled from other sources than model/kernels holds now",
        ),
    ],
)
def test_without_a_library_of_these_sources(
    part: str, value: object, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, part, lambda: value)

    assert (fault(), instruction_sets(), choose_set(torch.float32)) == (reason, [], None)


def test_where_the_sources_are_not_the_library_is_taken_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "_digest", lambda: None)

    assert instruction_sets() == SETS


def test_a_change_of_the_sources_changes_their_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = shutil.copytree(Path(compiler.__file__).parent, tmp_path / "kernels")
    monkeypatch.setattr(kernels, "_COMPILER", sources / "compiler.py")
    (compiled, _), before = REAL_LOAD(), REAL_DIGEST()
    if compiled is not None:
        assert compiled.headlight_sources().decode() == before
    with (sources / "team.h").open("a", encoding="utf-8") as file:
        file.write("\n")
    assert REAL_DIGEST() not in {None, before}
    shutil.rmtree(sources)
    assert REAL_DIGEST() is None


def test_where_nothing_is_compiled_nothing_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_LIBRARY", tmp_path / "_kernels.so")
    assert REAL_LOAD() == (None, [])


def test_the_library_lacks_no_set_that_the_processor_has() -> None:
    """A set that does not compile is left out, and the tests of it are skipped."""
    compiled, sets = REAL_LOAD()
    if compiled is None:
        pytest.skip("the kernels are not compiled")
    processor = torch.cpu.get_capabilities()
    wanted = {name for name in ("avx2", "avx512_vnni") if processor.get(name, False)}
    assert wanted <= {each.name for each in sets}
