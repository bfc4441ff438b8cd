"""deploy/prometheus and the board ask for what there is; alerts fire when they should."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from model import open_checkpoint
from service.app import ROUTERS, _series
from service.metrics import PROMETHEUS_TEXT, AnswerCounts, Metrics
from tests.deploy.queries import (
    DEPLOY,
    RULES,
    Query,
    aggregated,
    alerts,
    annotation_queries,
    board,
    grouping,
    panel_queries,
    panels,
    recorded,
    rule_queries,
    rules,
    selectors,
)

ROOT = DEPLOY.parent
CASES = Path(__file__).with_name("alerts.test.yml")
GUIDE = ROOT / "docs" / "guides" / "operate.md"
QUERIES = [*panel_queries(), *annotation_queries(), *rule_queries()]
# Labels that Prometheus adds to everything that it scrapes.
TARGET = frozenset({"job", "instance"})
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None and "CI" not in os.environ,
    reason="promtool is not installed (Debian's package prometheus)",
)


def promtool(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Runs promtool, with something to read."""
    command = ["promtool", *arguments]
    return subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=120, check=False
    )


@needs_promtool
def test_every_metric_is_named_as_prometheus_wants() -> None:
    metrics = Metrics(_series(ROUTERS))
    metrics.expect_answers(AnswerCounts(open_checkpoint(ROOT / "checkpoints" / "default")))
    shown = metrics.render(PROMETHEUS_TEXT).decode()
    checked = promtool("check", "metrics", given=shown)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert promtool("check", "metrics", given="# TYPE Odd gauge\nOdd 1\n").returncode != 0


def known_labels() -> dict[str, dict[str, set[str]]]:
    """The values of each label of each series, as far as they are known from the start."""
    metrics = Metrics(_series(ROUTERS))
    metrics.expect_model("default", "1", "cpu", "float32")
    metrics.expect_answers(AnswerCounts(open_checkpoint(ROOT / "checkpoints" / "default")))
    known: dict[str, dict[str, set[str]]] = {
        "up": {},
        "ALERTS": {"alertname": set(alerts()), "alertstate": {"pending", "firing"}},
        "haproxy_frontend_http_responses_total": {
            "proxy": {"public", "metrics"},
            "code": {"1xx", "2xx", "3xx", "4xx", "5xx", "other"},
        },
    }
    for family in metrics.registry.collect():
        for sample in family.samples:
            labels = known.setdefault(sample.name, {})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    for rule in rules():
        if "record" in rule:
            asked = known[selectors(rule["expr"])[0].name]
            names = grouping(rule["expr"]) - {"le"} - TARGET
            known[rule["record"]] = {name: asked[name] for name in names}
    return known


KNOWN = known_labels()


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.place)
def test_every_query_asks_for_series_and_labels_that_there_are(query: Query) -> None:
    asked = selectors(query.expression)
    assert asked
    for selector in asked:
        labels = KNOWN[selector.name]
        for name, operator, value in selector.matchers:
            assert name in {*labels, *TARGET}, selector
            if operator == "MatchOp.Equal" and name in labels:
                assert value in labels[name], selector
            elif operator == "MatchOp.Re" and name in labels:
                for choice in value.split("|"):
                    assert any(re.fullmatch(choice, known) for known in labels[name]), selector
    for kept, series in aggregated(query.expression):
        for name in series:
            assert kept <= {*KNOWN[name], *TARGET}, name
    shown = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
    own = {*KNOWN[asked[0].name], *TARGET}
    if asked[0].name in recorded():
        own = set(KNOWN[asked[0].name]) | {"job"}
    assert shown <= (grouping(query.expression) or own)


def test_probes_and_scrapes_are_no_requests_of_users() -> None:
    """What the error ratio leaves out; every other path counts."""
    [pattern] = {
        value
        for rule in rules()
        for selector in selectors(rule["expr"])
        for name, operator, value in selector.matchers
        if (name, operator) == ("route", "MatchOp.NotRe")
    }
    routes = KNOWN["headlight_requests_total"]["route"]
    left_out = {route for route in routes if re.fullmatch(pattern, route)}
    assert {"/health/live", "/health/ready", "/metrics"} <= left_out
    counted = {"/predict", "/attention", "/attention/steps", "/attributions", "/importance"}
    counted |= {"/model"}
    assert counted <= routes - left_out


def test_every_recorded_series_is_named_by_its_level_and_operation() -> None:
    for name in recorded():
        assert re.fullmatch(r"headlight:[a-z_]+:[a-z0-9_]+", name), name


def test_every_alert_says_what_it_is_and_what_to_do() -> None:
    headings = re.findall(r"^### (\w+)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    for name, alert in alerts().items():
        assert name.startswith("Headlight")
        assert alert["labels"]["severity"] in {"page", "ticket"}
        assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
        page, anchor = alert["annotations"]["runbook_url"].split("#")
        assert ROOT / page == GUIDE
        assert anchor == name.lower()
    assert [heading for heading in headings if heading.startswith("Headlight")] == list(alerts())


def test_the_guide_names_every_recorded_series_and_only_panels_that_there_are() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert set(re.findall(r"`(headlight:[a-z0-9_:]+)`", text)) == recorded()
    shown = set(re.findall(r"(?<!\*)\*([A-Z][^*\n]+)\*(?!\*)", text))
    assert len(shown) > 5
    assert shown <= {panel["title"] for panel in panels()}


@needs_promtool
def test_the_configuration_is_valid() -> None:
    path = RULES / "prometheus.yml"
    checked = promtool("check", "config", "--lint=all", "--lint-fatal", str(path))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@needs_promtool
def test_every_alert_fires_when_it_should_and_not_before() -> None:
    tested = promtool("test", "rules", str(CASES))
    assert tested.returncode == 0, tested.stdout + tested.stderr


@needs_promtool
@pytest.mark.parametrize("name", alerts())
@pytest.mark.parametrize("expression", ["vector(1) > 2", "headlight_ready or up or vector(1)"])
def test_the_cases_find_an_alert_that_never_or_always_fires(
    name: str, expression: str, tmp_path: Path
) -> None:
    content: dict[str, Any] = yaml.safe_load((RULES / "alerts.yml").read_text(encoding="utf-8"))
    for group in content["groups"]:
        for rule in group["rules"]:
            if rule["alert"] == name:
                rule["expr"] = expression
                rule.pop("for", None)
    changed = tmp_path / "alerts.yml"
    changed.write_text(yaml.safe_dump(content), encoding="utf-8")
    cases: dict[str, Any] = yaml.safe_load(CASES.read_text(encoding="utf-8"))
    cases["tests"] = [
        case
        for case in cases["tests"]
        if name in {check["alertname"] for check in case["alert_rule_test"]}
    ]
    cases["rule_files"] = [str(RULES / "recording.yml"), str(changed)]
    path = tmp_path / "cases.yml"
    path.write_text(yaml.safe_dump(cases), encoding="utf-8")
    tested = promtool("test", "rules", str(path))
    assert tested.returncode == 1
    assert f"alertname: {name}, " in tested.stdout + tested.stderr


def test_the_board_is_whole() -> None:
    content = board()
    assert (content["uid"], content["title"]) == ("headlight", "Headlight")
    ids = [panel["id"] for panel in content["panels"]]
    assert len(ids) == len(set(ids))
    sources = yaml.safe_load(
        (DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yaml").read_text()
    )["datasources"]
    source = {"type": sources[0]["type"], "uid": sources[0]["uid"]}
    for asking in (*panels(), *content["templating"]["list"], *content["annotations"]["list"]):
        assert asking["datasource"] == source
    for panel in panels():
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references)) > 0
        assert panel["fieldConfig"]["defaults"]["unit"]
    variables = {f"${variable['name']}" for variable in content["templating"]["list"]}
    assert variables == {"$job", "$instance", "$route"}


def test_no_panel_lies_on_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_the_duration_of_requests_shows_exemplars() -> None:
    [target] = [
        target for panel in panels() for target in panel["targets"] if target.get("exemplar")
    ]
    assert "headlight_request_duration_seconds_bucket" in target["expr"]


@pytest.mark.parametrize(
    "metric",
    [
        *("headlight_queue_tokens", "headlight_queue_oldest_seconds", "headlight_backlog_seconds"),
        *("headlight_batch_fill_ratio_sum", "headlight_padding_tokens_total"),
        *("headlight_refused_requests_total", "headlight_problems_total", "headlight_ready"),
        *("headlight_process_resident_memory_bytes", "headlight_process_start_time_seconds"),
        *("headlight_model_info", "headlight_forward_seconds_bucket", "headlight_tokens_total"),
    ],
)
def test_the_board_shows(metric: str) -> None:
    shown = {selector.name for query in panel_queries() for selector in selectors(query.expression)}
    assert metric in shown
