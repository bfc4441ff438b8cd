"""What the image holds, and what it does when it is run by itself."""

import json
import tomllib
from typing import Any

import pytest

from tests.containers.engine import ROOT, CommandError, Engine

_MOST_BYTES = 950_000_000
_OF_NO_USE = {
    *("httpx", "hypothesis", "matplotlib", "mypy", "pip", "pyarrow", "pytest", "ruff"),
    *("scikit_learn", "scipy", "transformers"),
}


@pytest.fixture(scope="module")
def config(engine: Engine, image: str) -> dict[str, Any]:
    """The configuration of the image."""
    description: dict[str, Any] = engine.inspect(image)["Config"]
    return description


def _names(requirements: list[str]) -> set[str]:
    return {
        requirement.split("==")[0].split("[")[0].replace("-", "_") for requirement in requirements
    }


def _installed(engine: Engine, image: str) -> dict[str, str]:
    code = (
        "import importlib.metadata as m, json; print(json.dumps("
        "{d.name.lower().replace('-', '_'): d.version for d in m.distributions()}))"
    )
    versions: dict[str, str] = json.loads(engine.docker("run", "--rm", image, "python", "-c", code))
    return versions


def test_runs_as_a_numeric_user_who_is_not_root(config: dict[str, Any]) -> None:
    assert config["User"] == "10001:10001"


def test_starts_the_service_without_a_shell(config: dict[str, Any]) -> None:
    assert config["Cmd"] == ["headlight-serve"]
    assert config["Entrypoint"] is None
    assert config["StopSignal"] == "SIGTERM"


def test_checks_its_health_by_python(config: dict[str, Any]) -> None:
    assert config["Healthcheck"]["Test"] == ["CMD", "python", "-E", "-S", "/app/healthcheck.py"]


def test_says_what_it_is(config: dict[str, Any]) -> None:
    labels = config["Labels"]
    assert labels["org.opencontainers.image.title"] == "Headlight"
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_holds_nothing_but_what_serving_needs(engine: Engine, image: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    serving = _names(project["dependencies"])
    found = set(_installed(engine, image))
    assert serving <= found
    assert found & _OF_NO_USE == set()


def test_holds_every_package_in_the_version_that_is_pinned(engine: Engine, image: str) -> None:
    found = _installed(engine, image)
    del found["headlight"]
    del found["torch"]  # pinned in pyproject.toml alone, since its builds differ
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().splitlines()
    pins = [line.split("==") for line in lines if not line.startswith("#")]
    pinned = {name.replace("-", "_"): version for name, version in pins}
    assert {name: pinned.get(name) for name in found} == found


def test_is_small(engine: Engine, image: str) -> None:
    assert engine.inspect(image)["Size"] < _MOST_BYTES


def test_a_change_of_the_project_leaves_the_layer_of_packages(engine: Engine, image: str) -> None:
    script = "import pathlib; print(*pathlib.Path('/opt/venv').rglob('headlight*'))"
    found = engine.docker("run", "--rm", image, "python", "-c", script).split()
    assert [name.rpartition("/")[2] for name in found] == ["headlight.pth"]
    steps = engine.docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", image)
    copied = [step for step in steps.splitlines() if "COPY" in step]
    # The newest first: the project, its bytecode, the checkpoint, and only then the packages.
    assert [step.partition("COPY ")[2].split()[0] for step in copied] == [
        *("/opt/headlight", "/opt/bytecode", "/app", "/opt/venv")
    ]


def test_needs_no_compiling_at_its_start(engine: Engine, image: str) -> None:
    script = """
import importlib, pathlib, sys
importlib.import_module("service.command")
cached = {getattr(module, "__cached__", None) for module in sys.modules.values()}
files = [pathlib.Path(name) for name in cached if isinstance(name, str)]
print(len(files) > 1000, [name for name in files if not name.is_file()])
"""
    assert engine.docker("run", "--rm", image, "python", "-c", script) == "True []"


def test_refuses_wrong_settings(engine: Engine, image: str) -> None:
    wrong = ["--env", "HEADLIGHT_PRT=1", "--env", "HEADLIGHT_PORT=x"]
    with pytest.raises(CommandError) as caught:
        engine.docker("run", "--rm", *wrong, image)
    message = str(caught.value)
    assert "exit code 1" in message
    assert "HEADLIGHT_PRT: unknown setting; did you mean HEADLIGHT_PORT?" in message
    assert "HEADLIGHT_PORT: " in message
