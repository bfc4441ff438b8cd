"""What is round the texts: `/model`, `/metrics` and `/openapi.json`."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from model.backends.kernels import choose_set
from service.errors import ALL_ERRORS, Refusal
from service.routes.schemas import ModelAnswer
from tests.builders import VOCABULARY
from tests.deploy.queries import board, panel_queries, rules
from tests.end_to_end.conftest import Start
from tests.end_to_end.servers import ROOT, RunningService, local_service, wait_until

SERIES = re.compile(r'^(headlight_[a-z0-9_]+(?:\{(?:[a-z]+="[^"]*",?)+\})?) (\S+)$')


def series(client: httpx.Client) -> dict[str, float]:
    """All series and their values; each line must be one or a comment."""
    response = client.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = [line for line in response.text.splitlines() if not line.startswith("# ")]
    matches = [SERIES.match(line) for line in lines]
    assert all(matches), lines
    return {match[1]: float(match[2]) for match in matches if match}


def test_model(client: httpx.Client) -> None:
    answer = client.get("/model").json()
    predicted = client.post("/predict", json={"sentences": ["a"]}).json()["model"]
    kernels = choose_set("float32")
    assert answer == {
        "name": predicted["name"],
        "version": predicted["version"],
        "architecture": "BertForSequenceClassification",
        "labels": ["negative", "positive"],
        "num_layers": 2,
        "num_heads": 2,
        "hidden_size": 8,
        "parameters": answer["parameters"],
        "max_length": 32,
        "temperature": 1.5,
        "device": "cpu",
        "engine": f"kernels ({kernels.family})" if kernels else "eager",
        "dtype": "float32",
        "dtype_reason": "set by HEADLIGHT_DTYPE",
        "metrics": [
            {
                "name": "dev",
                "rows": 100,
                "accuracy": 0.8,
                "interval": [0.711, 0.867],
                "log_loss": 0.45,
                "ece": 0.03,
            }
        ],
        "thresholds": None,  # see test_answer_counts
        "language": None,
        "pair_temperature": None,
        "methods": answer["methods"],  # see test_memory
        "limits": answer["limits"],  # see test_capacity
    }
    assert list(answer) == list(ModelAnswer.model_fields)
    embeddings = (len(VOCABULARY) + 32 + 2) * 8 + 16
    layer = 4 * (8 * 8 + 8) + (8 * 16 + 16) + (16 * 8 + 8) + 2 * 16
    assert answer["parameters"] == embeddings + 2 * layer + (8 * 8 + 8) + (8 * 2 + 2)


def test_an_idle_replica_has_few_series_and_all_that_rules_read(tmp_path: Path) -> None:
    default = ROOT / "checkpoints" / "default"
    with local_service(default, tmp_path) as running, running.client() as client:
        for path in ("/health/live", "/health/ready", "/metrics"):
            assert client.get(path).status_code == 200
        found = series(client)
    assert len(found) <= 300
    names = {re.split(r"[{ ]", name)[0] for name in found}
    expressions = [*panel_queries(), json.dumps(board()), *(rule["expr"] for rule in rules())]
    read = set(re.findall(r"\bheadlight_[a-z_]+", " ".join(expressions)))
    assert len(read) > 30
    assert read <= names
    # An error ratio must not miss the first error.
    for route in ("/predict", "/attention", "/attention/steps", "/attributions", "/importance"):
        for status in (500, 503, 504):
            name = f'headlight_requests_total{{method="POST",route="{route}",status="{status}"}}'
            assert found[name] == 0
    assert all(f'headlight_refused_requests_total{{reason="{each}"}}' in found for each in Refusal)


def test_what_is_asked_is_counted(start: Start) -> None:
    options = (
        *("--max-batch-tokens", "16", "--allowed-hosts", "127.0.0.1"),
        *("--allowed-origins", "https://fine.org"),
    )
    with start(*options) as running, running.client() as client:
        before = series(client)
        client.post("/predict", json={"sentences": ["a", "good film", "bad " * 40]})
        client.post("/predict", json={"sentences": ["a", " "], "on_error": "item"})
        client.post("/predict", json={"sentences": []})
        client.get("/attention?sentence=good")
        client.put("/attention")
        client.post("/attributions", json={"sentence": "good", "steps": 7})
        client.post("/importance", json={"sentence": "good", "label": "fair"})
        client.get("/nothing")
        client.get("/static/page.js", headers={"range": "bytes=99999-"})
        client.head("/static/nothing.js")
        client.get("/model", headers={"host": "example.org"})
        client.get("/model", headers={"x-request-timeout": "soon"})
        asked = {"access-control-request-method": "POST"}
        for origin in ("https://fine.org", "https://other.org"):
            client.options("/predict", headers={**asked, "origin": origin})
        # A file is closed, and its request counted, after the last byte of the answer.
        looks: list[float] = []

        def is_counted() -> bool:
            looks.append(running.metric("headlight_requests_in_progress"))
            return looks[-1] == 1  # this very one

        wait_until(is_counted)
        after = series(client)
    assert before.keys() <= after.keys()
    changed = {
        name: after[name] - before.get(name, 0)
        for name in after
        if after[name] != before.get(name, 0)
        and not name.startswith(("headlight_process_", "headlight_memory_used"))
    }
    counts = {name: change for name, change in changed.items() if "_bucket" not in name}
    counts = {name: change for name, change in counts.items() if "seconds_sum" not in name}
    # What texts look like, and how they are answered, has tests of its own.
    answers = ("headlight_answer", "headlight_truncated_answers", "headlight_unknown_tokens")
    counts = {name: change for name, change in counts.items() if not name.startswith(answers)}
    assert counts == {
        'headlight_requests_total{method="POST",route="/predict",status="200"}': 2,
        'headlight_requests_total{method="POST",route="/predict",status="422"}': 1,
        'headlight_requests_total{method="GET",route="/attention",status="200"}': 1,
        'headlight_requests_total{method="unmatched",route="/attention",status="405"}': 1,
        'headlight_requests_total{method="POST",route="/attributions",status="200"}': 1,
        'headlight_requests_total{method="POST",route="/importance",status="422"}': 1,
        'headlight_requests_total{method="unmatched",route="unmatched",status="200"}': 1,
        'headlight_requests_total{method="unmatched",route="unmatched",status="400"}': 1,
        'headlight_requests_total{method="unmatched",route="unmatched",status="404"}': 1,
        'headlight_requests_total{method="unmatched",route="unmatched",status="421"}': 1,
        'headlight_requests_total{method="unmatched",route="unmatched",status="422"}': 1,
        'headlight_requests_total{method="GET",route="/static/{name}",status="200"}': 1,
        'headlight_requests_total{method="HEAD",route="/static/{name}",status="404"}': 1,
        'headlight_requests_total{method="GET",route="/metrics",status="200"}': 1 + len(looks),
        'headlight_request_duration_seconds_count{route="/predict"}': 3,
        'headlight_request_duration_seconds_count{route="/attention"}': 2,
        'headlight_request_duration_seconds_count{route="/attributions"}': 1,
        'headlight_request_duration_seconds_count{route="/importance"}': 1,
        'headlight_request_duration_seconds_count{route="/static/{name}"}': 2,
        'headlight_request_duration_seconds_count{route="/metrics"}': 1 + len(looks),
        'headlight_request_duration_seconds_count{route="unmatched"}': 5,
        'headlight_problems_total{type="invalid-request"}': 4,
        'headlight_problems_total{type="method-not-allowed"}': 1,
        'headlight_problems_total{type="misdirected"}': 1,
        'headlight_problems_total{type="not-found"}': 2,
        "headlight_texts_total": 5 + 9,
        "headlight_tokens_total": 3 + 4 + 32 + 3 + 3 + 9 * 3,
        "headlight_truncated_texts_total": 1,
        # The two short ones share a pass; seven steps of attributions have two.
        "headlight_batch_texts_count": 4 + 2,
        "headlight_batch_texts_sum": 5 + 9,
        "headlight_batch_tokens_count": 4 + 2,
        "headlight_batch_tokens_sum": 2 * 4 + 32 + 3 + 3 + 9 * 3,
        "headlight_batch_fill_ratio_count": 4 + 2,
        "headlight_batch_fill_ratio_sum": (2 * 4 + 32 + 3 + 3 + 9 * 3) / 16,
        'headlight_forward_seconds_count{path="fused"}': 3,
        'headlight_forward_seconds_count{path="explicit"}': 1,
        'headlight_forward_seconds_count{path="gradient"}': 2,
    }


@pytest.fixture(scope="module")
def document(client: httpx.Client) -> dict[str, Any]:
    """The description of the interface, strictly: what is not described does not fit."""
    answer: dict[str, Any] = client.get("/openapi.json").json()
    for schema in answer["components"]["schemas"].values():
        if "properties" in schema:
            schema["additionalProperties"] = False
    return answer


def test_the_document_names_the_limits(document: dict[str, Any]) -> None:
    sentences = document["components"]["schemas"]["PredictRequest"]["properties"]["sentences"]
    assert (sentences["minItems"], sentences["maxItems"]) == (1, 40)
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_the_document_names_every_error_where_it_can_come(document: dict[str, Any]) -> None:
    assert "[each with its own type](problems)" in document["info"]["description"]
    told = {
        f"{method} {path}": set(re.findall(r"\(`([a-z-]+)`\)", str(operation["responses"])))
        for path, methods in _own(document).items()
        for method, operation in methods.items()
    }
    always = {"internal", "draining", "timeout"}
    asked = always | {"misdirected", "invalid-request"}
    keyed = asked | {"unauthorized", "not-acceptable", "not-ready"}
    computed = keyed | {"too-much-work", "text-too-long", "rate-limited", "overloaded"}
    body = {"malformed-json", "payload-too-large", "unsupported-media-type"}
    assert told == {
        "post /predict": computed | body,
        "get /attention": computed | {"cross-site", "too-many-weights"},
        "post /attention": computed | body | {"too-many-weights"},
        "post /attention/steps": computed | body | {"too-many-weights"},
        "post /attributions": computed | body | {"not-installed"},
        "post /importance": computed | body | {"not-installed"},
        "get /model": keyed,
        "get /health/live": always | {"not-ready"},
        "get /health/ready": always | {"not-ready"},
        "get /metrics": asked | {"unauthorized", "not-found", "not-acceptable"},
    }
    # The server answers any request with these, whatever the route
    assert set.union(*told.values()) | {"not-found", "method-not-allowed"} == {
        kind.type for kind in ALL_ERRORS
    }


def test_the_examples_work_and_answer_as_documented(
    running: RunningService, document: dict[str, Any]
) -> None:
    tried: Counter[str] = Counter()
    with running.client() as client:
        version = client.get("/model").json()["version"]
        for path, methods in document["paths"].items():
            place = path.replace("{model}", "tiny").replace("{version}", version)
            for method, operation in methods.items():
                for kwargs in _examples(operation):
                    response = client.request(method, place, **kwargs)
                    assert response.status_code == 200, (path, kwargs, response.text)
                    _check(document, operation, response)
                    tried[path] += 1
    assert sum(tried[path] for path in _own(document)) == 20
    assert tried.keys() == document["paths"].keys()


def _own(document: dict[str, Any]) -> dict[str, Any]:
    """The paths that are not there for clients of other systems."""
    return {
        path: methods
        for path, methods in document["paths"].items()
        if all(operation["tags"] != ["Other systems"] for operation in methods.values())
    }


def _examples(operation: dict[str, Any]) -> list[dict[str, Any]]:
    if "requestBody" in operation:
        media = operation["requestBody"]["content"]["application/json"]
        return [{"json": example["value"]} for example in media["examples"].values()]
    parameters = operation.get("parameters", [])
    query, headers = (
        {
            item["name"]: _example(item)
            for item in parameters
            if item["in"] == place and item.keys() & {"example", "content"}
        }
        for place in ("query", "header")
    )
    return [{"params": query, "headers": headers}]


def _example(parameter: dict[str, Any]) -> object:
    """The example of a parameter, as it is sent: one that holds JSON is written as JSON."""
    if "content" not in parameter:
        return parameter["example"]
    return json.dumps(parameter["content"]["application/json"]["example"])


def _check(document: dict[str, Any], operation: dict[str, Any], response: httpx.Response) -> None:
    documented = operation["responses"][str(response.status_code)]["content"]
    media_type = response.headers["content-type"].partition(";")[0]
    if media_type == "text/plain":
        assert "text/plain" in documented
        return
    schema = documented[media_type]["schema"]
    jsonschema.validate(response.json(), {**schema, "components": document["components"]})


TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
# Prometheus 3, which prefers protocol buffers if native histograms are on.
PROMETHEUS = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
    "encoding=delimited;q=0.7,"
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def test_every_scraper_is_answered_in_its_form_with_the_same_series(client: httpx.Client) -> None:
    for accept, form in (("*/*", TEXT), ("text/plain;q=0, */*", OPEN), (PROMETHEUS, OPEN)):
        response = client.get("/metrics", headers={"accept": accept})
        assert response.status_code == 200
        assert response.headers["content-type"] == form
        assert response.text.endswith("# EOF\n") == (form == OPEN)
    text, opened = client.get("/metrics").text, response.text
    assert {
        (sample.name, frozenset(sample.labels.items()))
        for family in read_text(text)
        for sample in family.samples
    } == {
        (sample.name, frozenset(sample.labels.items()))
        for family in read_openmetrics(opened)
        for sample in family.samples
    }
    assert not [line for line in opened.splitlines() if "_created" in line]
