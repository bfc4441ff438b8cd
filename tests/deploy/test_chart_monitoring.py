"""The Helm chart's monitoring: its rules fire for the series of its ServiceMonitor."""

import json
from pathlib import Path

import pytest
import yaml

from tests.deploy import chart
from tests.deploy.chart import CHART, Manifest, one, rendered
from tests.deploy.queries import RULES, alerts, board
from tests.deploy.test_rules import needs_promtool, promtool

pytestmark = chart.needs_helm
ENABLED = ("serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboard.enabled=true")


def _target_labels(manifests: list[Manifest]) -> dict[str, str]:
    """The labels that the Prometheus operator gives the targets of the ServiceMonitor."""
    service, monitor = one(manifests, "Service")["metadata"], one(manifests, "ServiceMonitor")
    [endpoint] = monitor["spec"]["endpoints"]
    assert "relabelings" not in endpoint
    return {
        "job": service["labels"].get(monitor["spec"].get("jobLabel"), service["name"]),
        "namespace": chart.NAMESPACE,
        "service": service["name"],
        "endpoint": endpoint["port"],
        "container": "api",
        "pod": "replica-1",
        "instance": "10.0.0.1:8000",
    }


@needs_promtool
@pytest.mark.parametrize("name", ["", 'nameOverride="texts"', 'fullnameOverride="sentiment"'])
def test_an_alert_fires_for_a_replica_that_is_down(name: str, tmp_path: Path) -> None:
    manifests = rendered(*ENABLED, *filter(None, [name]))
    rules, case = tmp_path / "rules.yml", tmp_path / "case.yml"
    rules.write_text(json.dumps(one(manifests, "PrometheusRule")["spec"]), encoding="utf-8")
    labels = ",".join(f'{key}="{value}"' for key, value in _target_labels(manifests).items())
    firing = 'count(ALERTS{alertname="HeadlightReplicaDown",alertstate="firing"})'
    expected = {"expr": firing, "eval_time": "8m", "exp_samples": [{"labels": "{}", "value": 1}]}
    test = {
        "interval": "1m",
        "input_series": [{"series": f"up{{{labels}}}", "values": "1x5 0x5"}],
        "promql_expr_test": [expected],
    }
    case.write_text(json.dumps({"rule_files": [str(rules)], "tests": [test]}), encoding="utf-8")

    tested = promtool("test", "rules", str(case))

    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_rules_are_those_of_the_project_with_a_page_of_your_own() -> None:
    groups = [
        group
        for name in ("recording.yml", "alerts.yml")
        for group in yaml.safe_load((RULES / name).read_text(encoding="utf-8"))["groups"]
    ]
    assert one(rendered(*ENABLED), "PrometheusRule")["spec"] == {"groups": groups}

    own = chart.render("--values", str(CHART / "ci" / "monitoring-values.yaml"))
    rule = one(own, "PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "monitoring"
    found = [rule for group in rule["spec"]["groups"] for rule in group["rules"]]
    assert {x["alert"]: x["annotations"]["runbook_url"] for x in found if "alert" in x} == {
        name: f"https://wiki.example.org/headlight/operate.html#{name.lower()}" for name in alerts()
    }


def test_the_board_is_a_file_that_grafanas_sidecar_finds() -> None:
    packed = one(rendered(*ENABLED), "ConfigMap")
    assert packed["metadata"]["labels"]["grafana_dashboard"] == "1"
    [(name, text)] = packed["data"].items()
    assert name.endswith(".json")
    assert json.loads(text) == board()
