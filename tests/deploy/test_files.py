"""The files that deploy the service agree with each other and with the service's settings."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.settings import PREFIX, Settings
from service.tracing.export import FLUSH_SECONDS
from tests.deploy import locks

ROOT = Path(__file__).parents[2]
HAPROXY = (ROOT / "deploy" / "haproxy.cfg").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
KUBERNETES: list[dict[str, Any]] = list(
    yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text(encoding="utf-8"))
)
SETTINGS = {PREFIX + name.upper() for name in Settings.model_fields}


def _seconds(pattern: str) -> float:
    """The one duration in the balancer's configuration that a pattern leads to."""
    [(number, unit)] = re.findall(rf"{pattern} (\d+)(ms|s)\b", HAPROXY)
    return int(number) / (1000 if unit == "ms" else 1)


def _deployment() -> dict[str, Any]:
    [deployment] = [item for item in KUBERNETES if item["kind"] == "Deployment"]
    specification: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return specification


def _compose_setting(name: str) -> float:
    return float(COMPOSE["services"]["api"]["environment"][PREFIX + name])


def test_every_setting_that_is_named_exists() -> None:
    files = [DOCKERFILE, HAPROXY, *(path.read_text() for path in (ROOT / "deploy").glob("*.py"))]
    files += [(ROOT / name).read_text() for name in ("docker-compose.yml", "Makefile", ".ci/run")]
    files.append((ROOT / "deploy" / "kubernetes.yaml").read_text().replace("PORT=tcp", "PORT"))
    named = {name for file in files for name in re.findall(rf"\b{PREFIX}[A-Z_]+", file)}
    assert named - SETTINGS == {PREFIX + "KERNELS"}  # of setup.py
    assert {PREFIX + "HOST", PREFIX + "PORT"} <= named


def test_the_balancer_notices_a_draining_replica_in_time() -> None:
    [falls] = re.findall(r" fall (\d+)", HAPROXY)
    noticed = _seconds(" inter") + (int(falls) - 1) * _seconds(" fastinter")
    assert 2 * noticed < _compose_setting("DRAIN_SECONDS")


def test_no_container_is_killed_while_it_answers() -> None:
    longest = _compose_setting("DRAIN_SECONDS") + _compose_setting("REQUEST_TIMEOUT") + 1
    longest += FLUSH_SECONDS
    for service in COMPOSE["services"].values():
        assert float(service["stop_grace_period"].removesuffix("s")) > longest
    assert _seconds("hard-stop-after") > _compose_setting("REQUEST_TIMEOUT")


def test_compose_passes_on_variables_of_traces_that_are_documented() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    given = COMPOSE["services"]["api"]["environment"]
    passed_on = [name for name in given if name.startswith("OTEL_")]
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in passed_on
    assert {name for name in passed_on if f"- `{name}` (" not in page} == set()
    # Empty in the file: the value comes from Compose's environment.
    assert {given[name] for name in passed_on} == {None}


def test_a_pod_is_not_killed_while_it_answers() -> None:
    [container] = _deployment()["containers"]
    given = {item["name"]: item["value"] for item in container["env"]}
    defaults = Settings.model_fields
    drain = float(given[f"{PREFIX}DRAIN_SECONDS"])
    longest = drain + float(defaults["request_timeout"].default) + 1 + FLUSH_SECONDS
    assert _deployment()["terminationGracePeriodSeconds"] > longest


def test_the_same_user_everywhere() -> None:
    [user] = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    context = _deployment()["securityContext"]
    assert user == (str(context["runAsUser"]), str(context["runAsGroup"])) == ("10001", "10001")


def test_every_package_is_pinned_alike() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(_pin(line) for line in lines if not line.startswith("#"))
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    named = [requirement for group in groups for requirement in group if "==" in requirement]
    wanted = dict(_pin(requirement) for requirement in named)
    del wanted["torch"]
    assert {name: pins.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("name", locks.NAMES)
def test_a_lock_holds_hashes_and_no_place(name: str) -> None:
    """Not even an index: whatever mirror gives the file, only its content counts."""
    assert locks.entries(name)
    text = (locks.FOLDER / f"{name}.lock").read_text(encoding="utf-8")
    assert "/" not in text.partition("\n")[2]


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("serving", ("serve", "torch-cpu")),
        ("serving", ("serve", "torch-cuda")),
        ("hub", ("hub",)),
        ("otel", ("otel",)),
        ("sbom", ("sbom",)),
        ("signing", ("signing",)),
    ],
)
def test_a_lock_pins_what_the_project_names(group: str, names: tuple[str, ...]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = project["dependencies"] if group == "serving" else None
    named = named or project["optional-dependencies"][group]
    wanted = {locks.canonical(name): version for name, version in map(_pin, named)}
    found = {name: version.partition("+")[0] for name, version in locks.pins(*names).items()}
    assert {name: found.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("name", ["serve", "hub", "otel", "sbom", "signing"])
def test_a_lock_agrees_with_the_constraints(name: str) -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(_pin(line) for line in lines if not line.startswith("#"))
    constraints = {locks.canonical(package): version for package, version in pinned.items()}
    found = locks.pins(name)
    assert {package: constraints.get(package) for package in found} == found


def test_torch_has_a_build_for_each_kind_of_machine() -> None:
    """One file for x86-64 and one for ARM, at least."""
    for name in ("torch-cpu", "torch-cuda"):
        [torch] = [entry for entry in locks.entries(name) if entry["name"] == "torch"]
        assert torch["hashes"].count("sha256:") >= 2


def test_the_image_installs_only_files_with_a_hash() -> None:
    steps = re.sub(r"\\\n", " ", DOCKERFILE)
    installs = re.findall(r"pip install [^;&\n]*", steps)
    assert len(installs) == 5
    [own] = [command for command in installs if "--requirement" not in command]
    assert own.rstrip().endswith(" .")
    assert {"--no-build-isolation", "--no-deps"} <= set(own.split())
    for command in installs:
        for requirement in re.findall(r"--requirement (\S+)", command):
            assert requirement.endswith(".lock")
    assert 'echo "--requirement ${name}.lock"; done >wanted.lock' in steps
    assert steps.count("PIP_REQUIRE_HASHES=1") == 2


def _pin(requirement: str) -> tuple[str, str]:
    matched = re.fullmatch(r"([A-Za-z0-9_.-]+)(?:\[\w+\])?==([^;, ]+)(?:;.*)?", requirement)
    assert matched is not None, f"{requirement} is not pinned exactly"
    return matched[1].lower().replace("_", "-"), matched[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            "PYTHON=no-such-python",
            "no-such-python is not there: install Python 3.11 or newer, or name one: "
            "make PYTHON=/path/to/python",
        ),
        (
            "PYTHON={old}",
            "Python 3.9.1 is too old: Python 3.11 or newer is needed; name one: "
            "make PYTHON=python3.12",
        ),
        ("TORCH=rocm", "TORCH is 'rocm', must be cpu or cuda"),
    ],
)
def test_make_refuses_a_wrong_choice(choice: str, message: str, tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\n[ "$1" != --version ] || echo Python 3.9.1\nexit 1\n')
    old.chmod(0o755)
    completed = subprocess.run(
        ["make", "install", choice.format(old=old), f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if "MAKE" not in name},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert completed.returncode == 2
    assert message in completed.stderr.splitlines()[0]
