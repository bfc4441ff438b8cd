"""Which library of kernels is loaded, and what is said where none is."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from model.backends import kernels
from model.backends.kernels import can_compute, fault, library

REAL_LOAD, REAL_DIGEST = kernels._load.__wrapped__, kernels._digest.__wrapped__
ALL = ("avx512_f", "avx512_bw", "avx512_dq", "avx512_vl", "avx512_bf16", "avx512_vnni")
LOADED = SimpleNamespace(headlight_sources=lambda: b"digest")


@pytest.fixture(autouse=True)
def _any_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor with all features, and a library of the sources that are here."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(ALL, True))
    monkeypatch.setattr(kernels, "_load", lambda: LOADED)
    monkeypatch.setattr(kernels, "_digest", lambda: "digest")


def test_the_library_is_used_where_all_is_there() -> None:
    assert fault() is None
    assert library() is LOADED  # type: ignore[comparison-overlap]
    assert all(can_compute(dtype) for dtype in (torch.float32, torch.bfloat16, torch.int8))
    assert not can_compute(torch.float16)


@pytest.mark.parametrize("missing", ALL)
def test_a_processor_without_what_a_type_needs(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        torch.cpu, "get_capabilities", lambda: {name: name != missing for name in ALL}
    )
    lost = {"avx512_bf16": {torch.bfloat16}, "avx512_vnni": {torch.int8}}.get(missing)

    assert fault() == (None if lost else f"this processor has no {missing}")
    for dtype in (torch.float32, torch.bfloat16, torch.int8):
        assert can_compute(dtype) is (lost is not None and dtype not in lost)


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("_load", None, "they are not compiled"),
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

    assert (fault(), library()) == (reason, None)
    assert not can_compute(torch.float32)


def test_where_the_sources_are_not_the_library_is_taken_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "_digest", lambda: None)

    assert library() is LOADED  # type: ignore[comparison-overlap]


def test_a_change_of_the_sources_changes_their_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = shutil.copytree(kernels._SOURCES, tmp_path / "kernels")
    monkeypatch.setattr(kernels, "_SOURCES", sources)
    compiled, before = REAL_LOAD(), REAL_DIGEST()
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
    monkeypatch.setattr(kernels, "__file__", str(tmp_path / "kernels.py"))
    assert REAL_LOAD() is None
