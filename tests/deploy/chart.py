"""Renders the Helm chart with the real helm, and writes the service's settings into its schema.

    python -m tests.deploy.chart

Run it after a setting is added, removed or changed.
"""

import json
import os
import subprocess
import tomllib
from functools import cache
from typing import Any

import pytest
import yaml

from service.settings import Settings
from tests.commands import ROOT, finish
from tests.deploy.balancers import needs, program

CHART = ROOT / "deploy" / "helm" / "headlight"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
EVERY = pytest.mark.parametrize(
    "values",
    sorted((CHART / "ci").glob("*-values.yaml")),
    ids=lambda path: path.name.removesuffix("-values.yaml"),
)
SCHEMA = CHART / "values.schema.json"
# What other values of the chart decide: checkpoint, service and apiKeys.
MANAGED = {"CHECKPOINT", "HOST", "PORT", "API_KEYS", "API_KEYS_FILE"}
_KEPT = ("type", "enum", "pattern", "minimum", "maximum", "exclusiveMinimum")
RELEASE = "headlight"
NAMESPACE = "demo"
# Without an image nothing is rendered.
_IMAGE = ("--set-json", 'image.repository="registry.internal/headlight"')
Manifest = dict[str, Any]


needs_helm = needs("helm")


def run_helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs helm, without a cluster and without files of the user."""
    helm = program("helm")
    assert helm is not None, "helm is not installed"
    own = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "KUBECONFIG": os.devnull}
    return finish(helm, *arguments, env=own, timeout=60)


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
    [found] = pod(manifests)["containers"]
    assert isinstance(found, dict)
    return found


def variables(manifests: list[Manifest]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in container(manifests)["env"]}


def settings_schema() -> dict[str, Any]:
    """What the schema says of each setting that `settings` takes."""
    fields = Settings.model_json_schema()["properties"]
    named = {name.upper(): _property(field) for name, field in fields.items()}
    return {name: named[name] for name in sorted(named) if name not in MANAGED}


def _property(field: dict[str, Any]) -> dict[str, Any]:
    """A setting as the chart takes it; null removes a default of the chart."""
    if "enum" in field:
        values = [*field["enum"], None]
        # YAML reads the bare words off and on as false and true.
        values += [bare == "on" for bare in ("off", "on") if bare in field["enum"]]
        return {"description": field["description"], "enum": values}
    kept = {name: field[name] for name in _KEPT if name in field}
    if field.get("type") == "array":  # families of paths; YAML reads a bare on or off as a boolean
        return {"description": field["description"], "type": ["string", "boolean", "null"]}
    kept["type"] = [field["type"] if "type" in field else _type(field["anyOf"]), "null"]
    if field.get("type") == "number":  # --set makes text of a number with a point
        kept |= {"type": ["number", "string", "null"], "pattern": r"^[0-9]+(\.[0-9]+)?$"}
    if field.get("default") == "auto" and "anyOf" in field:
        kept = {"type": ["integer", "string", "null"], "pattern": "^auto$", "minimum": 1}
    return {"description": field["description"], **kept}


def _type(choices: list[dict[str, Any]]) -> str:
    """Lists, rates and paths are written as text."""
    kinds = {choice["type"] for choice in choices if "type" in choice} - {"null", "array"}
    return kinds.pop() if len(kinds) == 1 else "string"


if __name__ == "__main__":
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    schema["properties"]["settings"]["properties"] = settings_schema()
    SCHEMA.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
