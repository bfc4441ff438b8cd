"""No text of a user reaches a problem, the log or the metrics."""

import json
from pathlib import Path

import httpx

from tests.end_to_end.collector import collecting
from tests.end_to_end.routes import EXPLANATIONS, INFER, JSON, PREDICT, send, tensor
from tests.end_to_end.servers import RunningService, service

CANARY = "KanarienvogelXYZ"
LONG = f"{CANARY} " * 9
PATHS = ("/predict", *(route.path for route in EXPLANATIONS.values()))


def test_a_canary_in_every_place_is_never_repeated(checkpoint_folder: Path, tmp_path: Path) -> None:
    """Nor sent with a trace, nor by a framework's telemetry, which its variable would turn on."""
    program = ("-m", "tests.end_to_end.misbehaving", str(tmp_path))
    options = ("--log-format", "text", "--max-attention-weights", "600")
    with collecting() as collector:
        settings = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "FASTAPI_OTEL_AUTO_CONFIGURE": "true",
        }
        with service(
            checkpoint_folder, tmp_path, *options, settings=settings, program=program
        ) as running:
            answers = _problems_of_bad_requests(running)
            (tmp_path / "pass").write_text("fail", encoding="ascii")
            answers += _problems_of_failing_passes(running)
            # One asks for health, which has no span.
            collector.wait_for(len(answers) - 1)
            metrics = running.metrics()
        log = running.log.read_text("utf-8")
    assert "a forward pass failed" in log
    assert "RuntimeError" in log
    assert {each.path for each in collector.received} == {"/v1/traces"}
    routes = {route.path for route in (PREDICT, *EXPLANATIONS.values())}
    assert {span.name for span in collector.requests()} == {
        *(f"POST {route}" for route in routes),
        *("POST /v2/models/{model}/infer", "GET /attention", "GET /model", "GET", "PATCH"),
    }
    sent = [each.content.decode("latin-1") for each in collector.received]
    for text in (*answers, metrics, log, *sent):
        assert CANARY.lower() not in text.lower()


def _problems_of_bad_requests(running: RunningService) -> list[str]:
    bodies: list[object] = [
        {CANARY: 1},
        {"sentences": CANARY},
        {"sentences": [{CANARY: CANARY}]},
        {"sentences": [CANARY + "\ud800"]},
        {"sentences": [CANARY, ""]},
        {"sentences": [LONG], "truncation": "error"},
        {"sentences": ["a"], "truncation": CANARY},
        {"sentences": ["a"], "on_error": [CANARY]},
        {"sentence": CANARY, "layer": [CANARY]},
        {"sentence": LONG},
        {"sentence": "a", "label": CANARY},
        {"sentence": "a", "method": CANARY},
        {"sentence": "a", "steps": CANARY},
        {"sentence": "a", "level": [CANARY]},
        {"sentence": LONG, "layer": 0, "head": 0, "query": CANARY},
        {"sentence": LONG, "layer": 0, "head": 0, "query": 99},
        {"sentence": LONG, "truncation": "error"},
        CANARY,
    ]
    queries = [
        f"sentence={CANARY}&{CANARY}=1",
        f"sentence=a&layer={CANARY}",
        f"sentence={CANARY}&sentence={CANARY}",
        f"sentence=a&truncation={CANARY}",
        f"sentence=%ff{CANARY}",
        f"sentence={LONG}&truncation=error",
        CANARY,
    ]
    with running.client() as client:
        responses = [
            client.post(path, content=json.dumps(body), headers=JSON)
            for body in bodies
            for path in PATHS
        ]
        responses += [client.get(f"/attention?{query}") for query in queries]
        responses += [
            client.post("/predict", content=CANARY, headers=JSON),
            client.post("/predict", content="{}", headers={"content-type": f"text/{CANARY}"}),
            client.post("/predict", content="{}", headers={**JSON, "content-encoding": CANARY}),
            client.get(f"/{CANARY}"),
            client.request("PATCH", f"/{CANARY}"),
            client.get("/model", headers={"accept": f"image/{CANARY}"}),
            client.get("/health/live", headers={"x-request-id": f"{CANARY} {CANARY}"}),
        ]
        body = {"sentences": [f"{CANARY}. {CANARY}"], "granularity": "sentence"}
        good = client.post("/predict", json=body)
        responses.append(client.post(INFER, json=tensor([CANARY], "score", id=CANARY)))
    assert good.status_code == 200
    assert {response.status_code for response in responses} == {200, 400, 404, 406, 413, 415, 422}
    return [_all_of(response) for response in (*responses, good)]


def _problems_of_failing_passes(running: RunningService) -> list[str]:
    names = ("attributions", "importance", "steps")
    with running.client() as client:
        responses = [
            client.post("/predict", json={"sentences": [CANARY]}),
            client.get(f"/attention?sentence={CANARY}&layer=0&head=0"),
            *(send(client, EXPLANATIONS[name], CANARY) for name in names),
        ]
    assert [response.status_code for response in responses] == [500] * 5
    return [_all_of(response) for response in responses]


def _all_of(response: httpx.Response) -> str:
    return f"{dict(response.headers)} {response.text}"
