"""deploy/prometheus and the board ask for what there is and compute it; alerts fire in time."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray

from model import Encoding, Prediction, open_checkpoint
from service.app import ROUTERS, _series
from service.metrics import PROMETHEUS_TEXT, AnswerCounts, Metrics
from tests.builders import tiny_baseline, tiny_checkpoint, tiny_manifest
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


LEAST = 1e-4
MINUTES = 30


def stability(use: NDArray[np.float64], baseline: NDArray[np.float64]) -> float:
    """The population stability index of two distributions, each summing to 1."""
    use, baseline = use.clip(min=LEAST), baseline.clip(min=LEAST)
    return float(((use - baseline) * np.log(use / baseline)).sum())


def answered(count: int) -> list[tuple[Sequence[Encoding], Prediction]]:
    """Texts of random lengths with random answers, some of them sure."""
    rng = np.random.default_rng(0)
    found: list[tuple[Sequence[Encoding], Prediction]] = []
    for _ in range(count):
        length = int(rng.integers(3, 25))
        score = float(rng.beta(5, 2) / 2 + 0.5)
        label = str(rng.choice(["negative", "positive"], p=[0.3, 0.7]))
        ids = rng.integers(0, 20, length).tolist()
        prediction = Prediction(label, score, {}, length, False)
        found.append(([Encoding(ids, truncated=False)], prediction))
    return found


def samples(counts: AnswerCounts) -> dict[str, float]:
    """The values of all series, by name and labels as promtool reads them."""
    found = {}
    for family in counts.collect():
        for sample in family.samples:
            labels = {"job": "headlight", "instance": "a:8000", **sample.labels}
            spelled = ",".join(f'{name}="{value}"' for name, value in labels.items())
            found[f"{sample.name}{{{spelled}}}"] = sample.value
    return found


def check(tmp_path: Path, counts: AnswerCounts, count: int, expected: dict[str, float]) -> None:
    """Has promtool evaluate recorded rules over series that grow by so many texts a minute."""
    before = samples(counts)
    counts.observe(answered(count))
    series = [
        {
            "series": name,
            "values": f"{before[name]:.17g}+{value * (before[name] != value):.17g}x{MINUTES}",
        }
        for name, value in samples(counts).items()
    ]
    one = [{"labels": "{}", "value": 1}]
    tests = [
        {
            "expr": f"abs(sum({name}) - {value!r}) < bool 1e-9",
            "eval_time": f"{MINUTES}m",
            "exp_samples": one,
        }
        for name, value in expected.items()
    ]
    content = {
        "rule_files": [str(RULES / "recording.yml")],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": tests}],
    }
    path = tmp_path / "cases.yml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    tested = promtool("test", "rules", str(path))
    assert tested.returncode == 0, tested.stdout + tested.stderr


@needs_promtool
def test_the_stability_index_is_what_numpy_computes(tmp_path: Path) -> None:
    baseline = tiny_baseline()
    checkpoint = tiny_checkpoint(tmp_path / "tiny", manifest=tiny_manifest(baseline=baseline))
    texts = answered(200)
    scores, lengths = np.zeros((2, 4)), np.zeros(3)
    for (encoding,), prediction in texts:
        bin_of_score = int((prediction.score > np.array(baseline.score_bounds)).sum())
        scores[["negative", "positive"].index(prediction.best), bin_of_score] += 1
        lengths[int((len(encoding.input_ids) > np.array(baseline.length_bounds)).sum())] += 1
    was = np.array([baseline.scores["negative"], baseline.scores["positive"]]) / baseline.rows
    long = np.array(baseline.lengths) / baseline.rows
    unknown = sum(encoding.input_ids.count(1) for (encoding,), _ in texts)
    tokens = sum(len(encoding.input_ids) for (encoding,), _ in texts)
    assert min(scores.min(), *(was.ravel())) == 0  # a bin that is empty
    assert stability(scores / 200, was) > 0.1
    check(
        tmp_path,
        AnswerCounts(open_checkpoint(checkpoint)),
        200,
        {
            "headlight:answers:increase1d": 200.0 * MINUTES,
            "headlight:answers:psi1d": stability(scores / 200, was),
            "headlight:answer_lengths:psi1d": stability(lengths / 200, long),
            "headlight:unknown_tokens:ratio_increase1d": unknown / tokens,
            "headlight:truncated_answers:ratio_increase1d": 0.0,
            'headlight:answers:ratio_increase1d{label="positive",score="0.75-0.9"}': float(
                scores[1, 2] / 200
            ),
        },
    )
