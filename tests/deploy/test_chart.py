"""The Helm chart: what it renders is valid, fits together, and refuses wrong values clearly."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from service.settings import PREFIX, Settings
from tests.deploy import chart, chart_settings
from tests.deploy.chart import CHART, EVERY, VERSION, Manifest, container, one, pod, rendered
from tests.documentation.markdown import ROOT, codes, sections
from tests.end_to_end.servers import local_service

pytestmark = chart.needs_helm
VALUES: Manifest = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA: Manifest = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
# Kinds whose schema is not that of Kubernetes itself.
CUSTOM = {"ScaledObject", "ServiceMonitor", "PrometheusRule", "HTTPRoute"}


@pytest.fixture(scope="module")
def default() -> list[Manifest]:
    """What the chart renders without any value."""
    return chart.render()


@EVERY
@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_every_example_renders_what_kubernetes_takes(values: Path, version: str) -> None:
    manifests = chart.render("--values", str(values))
    judged = 0
    for manifest in manifests:
        if manifest["kind"] not in CUSTOM:
            kubernetes_validate.validate(manifest, version, strict=True)
            judged += 1
    assert judged >= 5


@EVERY
def test_every_manifest_belongs_to_the_release(values: Path) -> None:
    for manifest in chart.render("--values", str(values)):
        labels = manifest["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == chart.RELEASE
        assert labels["app.kubernetes.io/version"] == VERSION
        assert manifest["metadata"]["name"].startswith("headlight")


@EVERY
def test_the_schema_takes_every_example_and_the_defaults(values: Path) -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(yaml.safe_load(values.read_text(encoding="utf-8")), SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)


def test_the_schema_knows_every_setting_of_the_service() -> None:
    known = SCHEMA["properties"]["settings"]["properties"]
    advice = "run: python -m tests.deploy.chart_settings"
    assert known == chart_settings.properties(), advice
    assert set(known) | chart_settings.MANAGED == {name.upper() for name in Settings.model_fields}


def test_the_schema_knows_every_value_and_no_other() -> None:
    assert set(SCHEMA["properties"]) == {*VALUES, "global"}
    for name, value in VALUES.items():
        properties = SCHEMA["properties"][name].get("properties")
        if isinstance(value, dict) and properties is not None and name != "settings":
            assert set(value) <= set(properties), name
            assert SCHEMA["properties"][name]["additionalProperties"] is False


def test_the_page_of_the_chart_names_every_value() -> None:
    items = re.findall(r"^- ([^:\n]+)", sections(CHART / "README.md")["Values"], re.MULTILINE)
    named = {name for item in items for name in codes(item)}

    assert named == _leaves("", VALUES, named)


def _leaves(prefix: str, value: object, named: set[str]) -> set[str]:
    if prefix in named or not isinstance(value, dict) or not value:
        return {prefix}
    return {
        leaf
        for name, inner in value.items()
        for leaf in _leaves(f"{prefix}.{name}".removeprefix("."), inner, named)
    }


def test_the_chart_has_the_version_of_the_project(default: list[Manifest]) -> None:
    described = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (described["version"], described["appVersion"]) == (VERSION, VERSION)
    assert container(default)["image"].endswith(f"/headlight:{VERSION}")


def test_it_agrees_with_the_plain_manifests(default: list[Manifest]) -> None:
    text = (ROOT / "deploy" / "kubernetes.yaml").read_text(encoding="utf-8")
    plain = list(yaml.safe_load_all(text))
    for name in (
        "automountServiceAccountToken",
        "enableServiceLinks",
        "securityContext",
        "terminationGracePeriodSeconds",
        "volumes",
    ):
        assert pod(default)[name] == pod(plain)[name], name
    for name in (
        "livenessProbe",
        "ports",
        "readinessProbe",
        "resources",
        "securityContext",
        "startupProbe",
        "volumeMounts",
    ):
        assert container(default)[name] == container(plain)[name], name
    given_by_chart = chart.variables(default)
    assert chart.variables(plain).items() <= given_by_chart.items()
    policies = [one(manifests, "NetworkPolicy")["spec"] for manifests in (default, plain)]
    assert policies[0]["ingress"] == policies[1]["ingress"]
    assert policies[0]["egress"] == policies[1]["egress"] == []


@pytest.mark.parametrize("kind", ["none", "hpa", "keda"])
def test_a_large_number_stays_whole(kind: str, tmp_path: Path) -> None:
    """Of a file of values, numbers come as floats, and 2e+06 is none for Kubernetes."""
    number = 2_000_000
    values = {
        **dict.fromkeys(("replicas", "revisionHistoryLimit", "minReadySeconds"), number),
        "autoscaling": {
            "kind": kind,
            "minReplicas": number,
            "maxReplicas": number,
            "keda": {"pollingInterval": number},
        },
        "podDisruptionBudget": {"maxUnavailable": number},
        "podSecurityContext": {"runAsUser": number},
    }
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values), encoding="utf-8")
    assert "e+" not in json.dumps(chart.render("--values", str(file)))


def test_the_service_takes_the_settings_that_it_renders() -> None:
    manifests = rendered(
        'settings={"METRICS":false,"MAX_BODY_BYTES":4000000,"MAX_BATCH_TOKENS":"auto",'
        '"REQUEST_TIMEOUT":2.5,"RATE_LIMIT":"600/minute","TRUSTED_PROXIES":"10.0.0.0/8"}'
    )
    found = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in chart.variables(manifests).items()
    }
    read = Settings(**found)  # type: ignore[arg-type]
    assert (read.metrics, read.max_body_bytes, read.request_timeout) == ("off", 4_000_000, 2.5)
    assert (read.max_batch_tokens, str(read.rate_limit)) == ("auto", "600/minute")


@pytest.mark.parametrize("keys", [[], ["first", "second"]])
def test_the_test_of_the_chart_passes_on_a_service_and_fails_without(
    keys: list[str], checkpoint_folder: Path, tmp_path: Path
) -> None:
    tester = one(rendered(f"apiKeys.values={json.dumps(keys)}"), "Pod")
    [running] = tester["spec"]["containers"]
    file = tmp_path / "keys"
    file.write_text("\n".join(keys), encoding="utf-8")
    given_names = {item["name"] for item in running["env"]}
    assert given_names == ({"URL", "KEYS"} if keys else {"URL"})
    command = [sys.executable, *running["command"][1:]]
    options = ["--api-keys-file", str(file)] if keys else []
    with local_service(checkpoint_folder, tmp_path, *options) as replica:
        environment = {**os.environ, "URL": replica.url, **({"KEYS": str(file)} if keys else {})}
        completed = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert completed.returncode == 0, completed.stderr
        assert re.fullmatch(r"tiny [0-9a-f]{12} (positive|negative)\n", completed.stdout)
    gone = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    assert gone.returncode == 1
