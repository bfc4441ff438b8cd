"""`docs/benchmarks.md` names every option, every load, and every server on a GPU."""

import argparse
from pathlib import Path

from benchmarks.__main__ import MAX_BATCH_TOKENS, parser
from benchmarks.gpu import programs
from benchmarks.loads import GPU_LOADS, LOADS
from model.backends.eager import CpuBackend
from service.settings import Settings
from tests.documentation.markdown import ROOT, code, rows

PAGE = ROOT / "docs" / "benchmarks.md"


def test_every_option_and_its_default_is_described() -> None:
    expected = [
        (action.option_strings[0], f"{action.default:g}")
        if isinstance(action.default, float)
        else (action.option_strings[0], str(action.default))
        for action in parser()._actions
        if action.default is not argparse.SUPPRESS
    ]

    assert [(code(name), code(default)) for name, default, _ in rows(PAGE, "option")] == expected


def test_every_load_is_described() -> None:
    assert [name for name, _ in rows(PAGE, "kind of load")] == [load.name for load in LOADS]


def test_every_load_and_server_on_a_gpu_is_described() -> None:
    assert [name for name, _ in rows(PAGE, "load on a GPU")] == [load.name for load in GPU_LOADS]
    named = [code(name) for name, _ in rows(PAGE, "server on a GPU")]
    assert named == [program.name for program in programs(Path())]


def test_the_model_alone_has_the_budget_of_the_service() -> None:
    assert Settings.model_fields["max_batch_tokens"].default == "auto"
    assert CpuBackend.default_batch_tokens == MAX_BATCH_TOKENS
