"""deploy/prometheus and the board ask for what there is; alerts fire when they should."""

import re
import subprocess
from pathlib import Path

from model import open_checkpoint
from service.app import ROUTERS, _series
from service.metrics import PROMETHEUS_TEXT, AnswerCounts, Metrics
from tests.commands import finish
from tests.deploy.balancers import needs
from tests.deploy.queries import CHOSEN, DEPLOY, RULES, alerts, board, panels, recorded, rules

ROOT = DEPLOY.parent
CASES = Path(__file__).with_name("alerts.test.yml")
GUIDE = ROOT / "docs" / "guides" / "operate.md"
needs_promtool = needs("promtool")


def promtool(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return finish("promtool", *arguments, input=text, timeout=120)


@needs_promtool
def test_every_metric_is_named_as_prometheus_wants() -> None:
    answers = AnswerCounts(open_checkpoint(ROOT / "checkpoints" / "default"))
    metrics = Metrics(_series(ROUTERS), answers)
    shown = metrics.render(PROMETHEUS_TEXT).decode()
    checked = promtool("check", "metrics", text=shown)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert promtool("check", "metrics", text="# TYPE Odd gauge\nOdd 1\n").returncode != 0


def test_probes_and_scrapes_are_no_requests_of_users() -> None:
    """The error ratio leaves them out; every other path counts."""
    [pattern] = {found for rule in rules() for found in re.findall(r'route!~"(.+?)"', rule["expr"])}
    left_out = {"/health/live", "/health/ready", "/metrics"}
    counted = {"/predict", "/attention", "/attention/steps", "/attributions", "/importance"}
    counted |= {"/model", "unmatched"}
    assert {route for route in left_out | counted if re.fullmatch(pattern, route)} == left_out


def test_every_alert_says_what_it_is_and_what_to_do() -> None:
    headings = re.findall(r"^### (\w+)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    for name, alert in alerts().items():
        assert name.startswith("Headlight")
        assert alert["labels"]["severity"] in {"page", "ticket"}
        assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
        url = f"https://headlight.example.org/docs/guides/operate.md#{name.lower()}"
        assert alert["annotations"]["runbook_url"] == url
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


def test_the_board_is_whole() -> None:
    content = board()
    assert (content["uid"], content["title"]) == ("headlight", "Headlight")
    ids = [panel["id"] for panel in content["panels"]]
    assert len(ids) == len(set(ids))
    chooser, *variables = content["templating"]["list"]
    assert (chooser["type"], chooser["query"]) == ("datasource", "prometheus")
    source = {"type": "prometheus", "uid": f"${{{chooser['name']}}}"}
    for asking in (*panels(), *variables, *content["annotations"]["list"]):
        assert asking["datasource"] == source
    for panel in panels():
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references)) > 0
        assert panel["fieldConfig"]["defaults"]["unit"]
    assert [f"${variable['name']}" for variable in variables] == list(CHOSEN)
