"""What the image holds, and what it does when it is run by itself."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from model.checkpoint.opening import open_checkpoint
from tests.builders import tiny_checkpoint
from tests.containers.engine import ROOT, CommandError, Engine
from tests.deploy.test_files import canonical, pins
from tests.model.keys import elliptic_pair, sign

_MOST_BYTES = 1_000_000_000
# Beside its base.
_MOST_SMALL_BYTES = 190_000_000
_VERSION = "from service.preflight import prepare; print(prepare({})[2].version)"


@pytest.fixture(scope="module")
def config(engine: Engine, image: str) -> dict[str, Any]:
    description: dict[str, Any] = engine.inspect(image)["Config"]
    return description


def _installed(engine: Engine, image: str) -> dict[str, str]:
    code = (
        "import importlib.metadata as m, json; print(json.dumps("
        "[(d.name, d.version) for d in m.distributions()]))"
    )
    found = json.loads(engine.docker("run", "--rm", image, "python", "-c", code))
    return {canonical(name): version for name, version in found}


def test_how_it_starts(engine: Engine, image: str, config: dict[str, Any]) -> None:
    assert engine.inspect(image)["Size"] < _MOST_BYTES
    assert config["User"] == "10001:10001"  # numeric, and not root
    assert config["Cmd"] == ["headlight-serve"]  # without a shell
    assert config["Entrypoint"] is None
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"] == ["CMD", "python", "-E", "-S", "/app/healthcheck.py"]


def test_a_release_says_what_it_is(engine: Engine, image: str) -> None:
    """With the build arguments of deploy/release.sh."""
    script = (ROOT / "deploy" / "release.sh").read_text(encoding="utf-8")
    names = set(re.findall(r"--build-arg (\w+)=", script)) - {"SOURCE_DATE_EPOCH"}
    arguments = [part for name in names for part in ("--build-arg", f"{name}=the-{name.lower()}")]
    tag = f"{image}-release"
    engine.docker("build", *arguments, "--tag", tag, ".")
    labels = engine.inspect(tag)["Config"]["Labels"]
    prefix = "org.opencontainers.image."
    found = {name.removeprefix(prefix): labels[name] for name in labels if prefix in name}
    assert found.pop("description")
    assert found == {
        **{name: f"the-{name}" for name in ("version", "revision", "created", "source")},
        "title": "Headlight",
        "licenses": "Apache-2.0",
    }


def test_holds_exactly_what_the_locks_pin(engine: Engine, image: str) -> None:
    found = _installed(engine, image)
    del found["headlight"]
    assert found == pins("torch-cpu", "torch-needs", "serve")


def test_lists_exactly_its_packages(engine: Engine, image: str, config: dict[str, Any]) -> None:
    path = config["Labels"]["headlight.sbom"]
    content = json.loads(engine.docker("run", "--rm", image, "cat", path))
    assert content["bomFormat"] == "CycloneDX"
    listed = [(canonical(part["name"]), part["version"]) for part in content["components"]]
    assert len(listed) == len(set(listed))
    assert dict(listed) == _installed(engine, image)  # without the tool that lists
    for part in content["components"]:
        if part["name"] != "headlight":
            assert part["purl"].startswith(f"pkg:pypi/{part['name'].lower().replace('_', '-')}@")


def test_has_the_kernels_and_no_compiler(engine: Engine, image: str) -> None:
    ask = "from model.backends.kernels import reason_unavailable; print(reason_unavailable())"
    reason = engine.docker("run", "--rm", image, "python", "-c", ask).strip()
    assert reason == "None" or reason.startswith("this processor has no ")
    for compiler in ("c++", "g++", "cc"):
        with pytest.raises(CommandError):
            engine.docker("run", "--rm", image, "which", compiler)


def test_a_package_without_a_hash_stops_the_build(engine: Engine, tmp_path: Path) -> None:
    lock = _copy_context(tmp_path) / "requirements" / "serve.lock"
    lock.write_text(f"{lock.read_text(encoding='utf-8')}six==1.17.0\n", encoding="utf-8")
    with pytest.raises(CommandError, match="Hashes are required"):
        engine.docker("build", "--target", "packages", str(tmp_path))


def test_another_checkpoint_that_ships_is_served_by_its_name(engine: Engine, image: str) -> None:
    chosen = ("--env", "HEADLIGHT_CHECKPOINT=checkpoints/two-classes")
    found = engine.docker(
        "run", "--rm", "--network", "none", *chosen, image, "python", "-c", _VERSION
    )
    assert found == open_checkpoint(ROOT / "checkpoints" / "two-classes").version


def test_can_be_built_with_extras(engine: Engine, image: str, tmp_path: Path) -> None:
    tag = f"{image}-extras"
    engine.docker("build", "--build-arg", "EXTRA=otel hub signing", "--tag", tag, ".")
    found = _installed(engine, tag)
    del found["headlight"]
    assert found == pins("torch-cpu", "torch-needs", "serve", "otel", "hub", "signing")

    folder = tiny_checkpoint(tmp_path / "tiny")
    keys = elliptic_pair(tmp_path / "keys")
    sign(folder, keys)
    serve = [
        *("run", "--rm", "--network", "none", "--env", "HEADLIGHT_CHECKPOINT=/data/tiny"),
        *("--env", "HEADLIGHT_CHECKPOINT_KEY=/data/keys/key-public.pem"),
        *("--volume", f"{tmp_path}:/data:ro", "--user", "0"),
    ]
    version = engine.docker(*serve, tag, "python", "-c", _VERSION)
    assert version == open_checkpoint(folder).version

    (folder / "added").write_text("", encoding="utf-8")
    with pytest.raises(CommandError, match=r"Extra files .*added"):
        engine.docker(*serve, tag)
    without = "model_signing is not installed, which signatures need: pip install"
    with pytest.raises(CommandError, match=without):
        engine.docker(*serve, image)
    with pytest.raises(CommandError, match=without):
        engine.docker(*serve, image, "serve")  # as SageMaker runs it


def test_a_small_image_serves_without_torch(engine: Engine, image: str) -> None:
    tag = f"{image}-small"
    engine.docker("build", "--build-arg", "TORCH=none", "--tag", tag, ".")
    found = _installed(engine, tag)
    del found["headlight-serve"]
    assert found == pins("serve")
    size, base = (engine.inspect(name)["Size"] for name in (tag, "python:3.11-slim-bookworm"))
    assert size - base < _MOST_SMALL_BYTES
    script = """
import model
loaded = model.load("checkpoints/default")
print(loaded.predict(["What a wonderful film."])[0].label)
try:
    loaded.attributions("What a wonderful film.")
except ImportError as error:
    print(error.name)
"""
    answers = engine.docker("run", "--rm", "--network", "none", tag, "python", "-c", script)
    assert answers.split() == ["positive", "torch"]


def _copy_context(target: Path) -> Path:
    """A copy of all that a build reads before it installs packages."""
    for name in ("Dockerfile", ".dockerignore"):
        shutil.copy(ROOT / name, target)
    for name in ("requirements", "wheels"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name)
    return target


def test_a_change_of_the_project_leaves_the_layer_of_packages(engine: Engine, image: str) -> None:
    script = "import pathlib; print(*pathlib.Path('/opt/venv').rglob('headlight*'))"
    found = engine.docker("run", "--rm", image, "python", "-c", script).split()
    assert [name.rpartition("/")[2] for name in found] == ["headlight.pth"]
    steps = engine.docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", image)
    copied = [step for step in steps.splitlines() if "COPY" in step]
    # The newest first. The packages come last, below all that a new version changes.
    assert [step.partition("COPY ")[2].split()[0] for step in copied] == [
        *("/build/sbom.cdx.json", "/opt/headlight", "/opt/bytecode", "/app", "/opt/venv")
    ]


def test_needs_no_compiling_at_its_start(engine: Engine, image: str) -> None:
    script = """
import importlib, pathlib, sys
importlib.import_module("service.command")
cached = {getattr(module, "__cached__", None) for module in sys.modules.values()}
files = [pathlib.Path(name) for name in cached if isinstance(name, str)]
print(len(files) > 300, [name for name in files if not name.is_file()])
"""
    assert engine.docker("run", "--rm", image, "python", "-c", script) == "True []"
