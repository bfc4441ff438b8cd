"""docs/reference/metrics.md names every metric of the registry with its type and labels."""

import re
import sys

import pytest
from prometheus_client import Metric
from prometheus_client.metrics import MetricWrapperBase

from model import open_checkpoint
from service.errors import ALL_ERRORS
from service.metrics import AnswerCounts, Metrics
from tests.documentation.markdown import REFERENCE, ROOT, code, codes, rows

PAGE = REFERENCE / "metrics.md"
PROCESS = "headlight_process_"


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    """Those of a service with one route."""
    metrics = Metrics([("/predict", "POST", [200])])
    metrics.expect_model("default", "1234", "cpu", "float32")
    metrics.expect_answers(AnswerCounts(open_checkpoint(ROOT / "checkpoints" / "default")))
    return metrics


def test_every_metric_has_its_type(metrics: Metrics) -> None:
    documented = [(code(name), kind) for name, kind, *_ in rows(PAGE, "metric", "type")]
    registered = [(_name(family), family.type) for family in metrics.registry.collect()]

    if sys.platform != "linux":
        documented = [each for each in documented if not each[0].startswith(PROCESS)]
    assert sorted(documented) == sorted(registered)


def test_every_metric_has_its_labels(metrics: Metrics) -> None:
    documented = {
        code(name): codes(labels)
        for name, _, labels, _ in rows(PAGE, "metric", "type")
        if not name.startswith(f"`{PROCESS}")
    }
    registered = {
        _name(family): list(wrapper._labelnames)
        for wrapper in vars(metrics).values()
        if isinstance(wrapper, MetricWrapperBase)
        for family in wrapper.describe()
    }
    for family in metrics.registry.collect():
        if "version" in family.samples[0].labels and family.name != "headlight_model_info":
            registered[_name(family)] = list(family.samples[0].labels)

    assert documented == registered


def test_queries_ask_for_series_that_there_are(metrics: Metrics) -> None:
    series = {sample.name for family in metrics.registry.collect() for sample in family.samples}

    queries = " ".join(query for _, query in rows(PAGE, "question", "query"))

    assert set(re.findall(r"headlight_\w+", queries)) <= series


def test_queries_name_errors_that_there_are() -> None:
    queries = " ".join(query for _, query in rows(PAGE, "question", "query"))

    assert set(re.findall(r'type=~"(.+?)"', queries)[0].split(r"\|")) <= {
        error.type for error in ALL_ERRORS
    }


def _name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name
