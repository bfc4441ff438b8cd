"""What is imported when something runs; import-linter holds what may import what."""

import json
import re
import tomllib

from tests.programs import ROOT, run_python
from tools import sizes

PACKAGES = ("model", "service", "training", "scoring")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# The modules that a requirement installs, where they are not named as it is.
MODULES = {
    "scikit-learn": "sklearn",
    "pytest-cov": "pytest_cov",
    "pytest-xdist": "xdist",
    "import-linter": "importlinter",
}
SERVING = "model, service.__main__, service.command, service.app"
# Prints what is imported after the statement.
AFTER = "{}; import json, sys; print(json.dumps(sorted(sys.modules)))"


def modules_after(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after a statement."""
    finished = run_python("-c", AFTER.format(statement))
    names: list[str] = json.loads(finished.stdout.splitlines()[-1])
    return {name.partition(".")[0] for name in names}


def extra(name: str) -> set[str]:
    """The top-level modules of an extra's requirements, without those that serving needs too."""
    needed = {re.split(r"[=<>;\[ ]", line)[0] for line in PROJECT["dependencies"]}
    listed = {re.split(r"[=<>;\[ ]", line)[0] for line in PROJECT["optional-dependencies"][name]}
    return {MODULES.get(line, line.replace("-", "_")) for line in listed - needed - {"headlight"}}


def test_serving_needs_no_extras() -> None:
    """Each extra is hidden, as if it were not installed."""
    hidden = extra("train") | extra("teacher") | extra("dev") | {"training", "tests"}
    hide = f"import sys; sys.modules.update(dict.fromkeys({sorted(hidden)}))"
    assert {"matplotlib", "pyarrow", "scipy", "tqdm", "pytest", "transformers"} <= hidden
    assert "service" in modules_after(f"{hide}; import {SERVING}")


def test_serving_imports_no_extras() -> None:
    """Not even where they are installed: they would make the start slow."""
    imported = modules_after(f"import {SERVING}")
    by_torch = {"tqdm"}
    extras = extra("train") | extra("teacher") | extra("dev")
    assert imported.isdisjoint((extras | {"training", "tests"}) - by_torch)


def test_model_knows_no_http_and_none_of_its_callers() -> None:
    web = {"fastapi", "starlette", "uvicorn", "prometheus_client"}
    assert modules_after("import model").isdisjoint({*web, "service", "training"})


def test_scoring_imports_ray_only_for_its_engine() -> None:
    modules = "scoring.__main__, scoring.job, scoring.parts, scoring.engines.local"
    assert modules_after(f"import {modules}").isdisjoint({"service", "training", "ray"})


def test_python_marks_the_packages_as_typed() -> None:
    assert [package for package in PACKAGES if (ROOT / package / "py.typed").is_file()] == [
        *PACKAGES
    ]


def test_the_training_command_imports_what_a_subcommand_needs_when_it_runs() -> None:
    heavy = {"matplotlib", "pyarrow", "scipy", "sklearn", "torch", "transformers"}
    assert not modules_after("import training.__main__") & heavy


def test_nothing_imports_torch_before_it_computes_with_it() -> None:
    imported = modules_after("import model, service.command, service.app, scoring.scorer")
    imported |= modules_after("import model; model.load, model.Predictor, model.Checkpoint")
    assert not imported & {"torch", "safetensors.torch"}


def test_the_lines_of_packages_are_counted_and_one_that_is_too_large_is_named() -> None:
    files = {
        "service/app.py": b"a\nb\n",
        "service/page/static/page.js": b"a\n",
        "training/fit/presets/course.toml": b"a\n",
        "model/kernels/encode.cpp": b"a\n" * (sizes.BUDGETS["model"] + 1),
        "recipes/default.py": b"a\n",
        "setup.py": b"a\n",
        # None of these count.
        "recipes/rules/words.toml": b"a\n",
        "tests/builders.py": b"a\n",
        "client/pyproject.toml": b"a\n",
        "README.md": b"a\n",
    }
    found = sizes.count(files)

    assert {name: lines for name, lines in found.items() if lines} == {
        "service": 3,
        "training": 1,
        "model": sizes.BUDGETS["model"] + 1,
        "recipes and examples": 1,
        "everything else": 1,
    }
    text, keeps = sizes.report(found)
    assert not keeps
    assert [line.split()[0] for line in text.splitlines() if "TOO MANY" in line] == ["model"]
