"""Renders the Helm chart with the real helm."""

import os
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.balancers import program

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "headlight"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
EVERY = pytest.mark.parametrize(
    "values",
    sorted((CHART / "ci").glob("*-values.yaml")),
    ids=lambda path: path.name.removesuffix("-values.yaml"),
)
RELEASE = "headlight"
NAMESPACE = "demo"
# Without an image nothing is rendered.
_IMAGE = ("--set-json", 'image.repository="registry.internal/headlight"')
Manifest = dict[str, Any]


needs_helm = pytest.mark.skipif(
    program("helm") is None and "CI" not in os.environ,
    reason="helm is not installed (helm-binary)",
)


def run_helm(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs helm, without a cluster and without files of the user."""
    helm = program("helm")
    assert helm is not None, "helm is not installed"
    return subprocess.run(
        [helm, *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "KUBECONFIG": os.devnull},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@cache
def render(*options: str) -> list[Manifest]:
    """The manifests for options of `helm template`; nobody changes them."""
    command = ("template", RELEASE, str(CHART), "--namespace", NAMESPACE, *_IMAGE, *options)
    completed = run_helm(*command)
    assert completed.returncode == 0, completed.stderr
    return [document for document in yaml.safe_load_all(completed.stdout) if document]


def refusal(*values: str) -> str:
    """What helm says to wrong values, each as `--set-json` takes it."""
    options = [part for value in values for part in ("--set-json", value)]
    completed = run_helm("template", RELEASE, str(CHART), *_IMAGE, *options)
    assert completed.returncode == 1, completed.stdout
    return completed.stderr


def rendered(*values: str) -> list[Manifest]:
    """The manifests for values, each as `--set-json` takes it."""
    return render(*(part for value in values for part in ("--set-json", value)))


def one(manifests: list[Manifest], kind: str) -> Manifest:
    """The only manifest of a kind, not counting the test's pod."""
    [found] = [manifest for manifest in manifests if manifest["kind"] == kind]
    return found


def pod(manifests: list[Manifest]) -> Manifest:
    """The specification of a replica."""
    specification: Manifest = one(manifests, "Deployment")["spec"]["template"]["spec"]
    return specification


def container(manifests: list[Manifest]) -> Manifest:
    """The container of a replica."""
    [found] = pod(manifests)["containers"]
    assert isinstance(found, dict)
    return found


def variables(manifests: list[Manifest]) -> dict[str, str]:
    """The variables of a replica."""
    return {item["name"]: item["value"] for item in container(manifests)["env"]}
