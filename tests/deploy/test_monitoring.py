"""A real Prometheus finds data for every panel and rule, and sees a replica go."""

import json
import math
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.builders import tiny_baseline, tiny_checkpoint, tiny_manifest
from tests.deploy.balancers import Replicas, answers, balancer, free_ports, needs, running_process
from tests.deploy.queries import RULES, panel_queries, recorded, rules
from tests.end_to_end.servers import RunningService, wait_until

pytestmark = needs("haproxy", "prometheus")
PATIENCE = 60.0
# Shorter than in production, so that tests end soon.
INTERVAL = "1s"


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus."""

    url: str

    def ask(self, path: str, **parameters: str) -> dict[str, Any]:
        """An answer of its API, with what was found under `data`."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=PATIENCE)
        content: dict[str, Any] = answer.json()
        assert content["status"] == "success", content
        return content

    def samples(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The labels and values that an expression has now, without those that are no number."""
        found = self.ask("query", query=expression)["data"]["result"]
        samples = [(each["metric"], float(each["value"][1])) for each in found]
        return [(labels, value) for labels, value in samples if not math.isnan(value)]

    def value(self, expression: str) -> float | None:
        """The one value of an expression; None if it has none."""
        samples = self.samples(expression)
        assert len(samples) < 2, samples
        return samples[0][1] if samples else None


@dataclass(frozen=True, slots=True)
class Monitored:
    """Everything that is monitored, and who does it."""

    replicas: list[RunningService]
    balancer: httpx.Client
    prometheus: Prometheus


# Requests that belong to a trace are traced. No collector listens at this port.
_TRACED = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
    "OTEL_TRACES_SAMPLER": "parentbased_always_off",
}


@contextmanager
def monitored(checkpoint: Path, folder: Path, *options: str) -> Iterator[Monitored]:
    """Starts everything, and waits until all of it is up."""
    with ExitStack() as stack:
        replicas = stack.enter_context(Replicas(checkpoint, folder, *options, settings=_TRACED))
        front = stack.enter_context(balancer("haproxy", replicas.ports, folder))
        client = httpx.Client(base_url=f"http://127.0.0.1:{front.port}", timeout=PATIENCE)
        stack.enter_context(client)
        _write_configuration(folder, replicas.ports, front.metrics_port)
        [own] = free_ports(1)
        command = (
            "prometheus",
            f"--config.file={folder}/prometheus/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{own}",
            "--enable-feature=exemplar-storage",
        )
        stack.enter_context(running_process(command, folder / "prometheus.log"))
        prometheus = Prometheus(f"http://127.0.0.1:{own}")
        wait_until(partial(answers, f"{prometheus.url}/-/ready"))
        wait_until(partial(answers, f"{client.base_url}/health/ready"))
        wait_until(lambda: prometheus.value("sum(up)") == 3)
        yield Monitored(list(replicas.running.values()), client, prometheus)


def _write_configuration(folder: Path, replicas: list[int], metrics_port: int) -> None:
    """Copies the project's configuration, with addresses of this machine and less patience."""
    shutil.copytree(RULES, folder / "prometheus")
    path = folder / "prometheus" / "prometheus.yml"
    text = path.read_text(encoding="utf-8")
    targets = json.dumps([f"127.0.0.1:{port}" for port in replicas])
    for pattern, instead in {
        r"dns_sd_configs:\n +- \{names: \[api\].*\}": f"static_configs: [{{targets: {targets}}}]",
        r"balancer:8405": f"127.0.0.1:{metrics_port}",
        r"scrape_interval: \w+": f"scrape_interval: {INTERVAL}",
        r"scrape_timeout: \w+": f"scrape_timeout: {INTERVAL}",
        r"evaluation_interval: \w+": f"evaluation_interval: {INTERVAL}",
    }.items():
        text, count = re.subn(pattern, instead, text)
        assert count == 1, pattern
    path.write_text(text, encoding="utf-8")
    recording = path.with_name("recording.yml")
    text = re.sub(r"interval: \w+", f"interval: {INTERVAL}", recording.read_text(encoding="utf-8"))
    recording.write_text(text, encoding="utf-8")


TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    """Everything, under load until the last test of this file ends."""
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny"
    with (
        monitored(
            tiny_checkpoint(folder, manifest=tiny_manifest(baseline=tiny_baseline())),
            tmp_path_factory.mktemp("monitored"),
            *("--max-batch-tokens", "64", "--drain-seconds", "600"),
        ) as everything,
        load(everything.balancer),
    ):
        yield everything


@contextmanager
def load(balancer: httpx.Client) -> Iterator[None]:
    """Asks for all that is measured, again and again."""
    stop = threading.Event()
    faults: list[BaseException] = []

    def ask() -> None:
        traced = {"traceparent": TRACEPARENT}
        try:
            while not stop.wait(0.05):  # leaves the processors to other tests
                texts = {"sentences": ["a good film", "bad", "a " * 40]}
                assert balancer.post("/predict", json=texts, headers=traced).status_code == 200
                for path in ("/attention", "/attributions", "/importance"):
                    question = {"sentence": "a good film"}
                    assert balancer.post(path, json=question).status_code == 200
                assert balancer.post("/predict", json={}).status_code == 422
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert faults == []


def has_data(running: Monitored, expression: str) -> bool:
    """Whether an expression has a value that is a number."""
    return bool(running.prometheus.samples(expression))


def test_both_replicas_and_the_balancer_are_scraped(running: Monitored) -> None:
    found = [(labels["job"], labels["instance"]) for labels, _ in running.prometheus.samples("up")]
    replicas = [("headlight", f"127.0.0.1:{replica.port}") for replica in running.replicas]
    [balancer] = [each for each in found if each[0] == "haproxy"]
    assert sorted(found) == sorted([*replicas, balancer])
    wait_until(lambda: running.prometheus.value("sum(up)") == 3)
    wait_until(lambda: running.prometheus.value('sum(headlight_ready{job="headlight"})') == 2)


def test_every_panel_has_data(running: Monitored) -> None:
    for query in panel_queries():
        wait_until(partial(has_data, running, query))


def test_every_rule_is_computed_and_every_recorded_series_has_data(running: Monitored) -> None:
    for name in recorded():
        wait_until(partial(has_data, running, name))
    groups = running.prometheus.ask("rules")["data"]["groups"]
    healths = {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}
    assert healths == {rule.get("alert") or rule["record"]: "ok" for rule in rules()}
    wait_until(lambda: not running.prometheus.samples('ALERTS{severity="page"}'))


def test_figures_are_those_of_the_load_and_its_trace_is_an_exemplar(running: Monitored) -> None:
    """Where a figure is known, the recorded series must have it."""
    ask = running.prometheus.value
    errors, fill = "headlight:errors:ratio_rate5m", "headlight:batch_fill:ratio_rate5m"
    wait_until(lambda: ask(errors) is not None and ask(fill) is not None)
    assert ask(errors) == 0
    assert 0 < (ask(fill) or 0) <= 1
    wait_until(lambda: (ask("sum(headlight_truncated_texts_total)") or 0) > 0)
    refused = running.prometheus.samples("sum by (reason) (headlight_refused_requests_total)")
    assert len(refused) == 9
    assert {value for _, value in refused} == {0}

    def traces() -> set[str]:
        found = running.prometheus.ask(
            "query_exemplars",
            query='headlight_request_duration_seconds_bucket{route="/predict"}',
            start=str(time.time() - 3600),
            end=str(time.time() + 60),
        )["data"]
        return {each["labels"]["trace_id"] for item in found for each in item["exemplars"]}

    wait_until(lambda: bool(traces()))
    assert traces() == {TRACE}


def test_a_replica_that_drains_and_ends_is_seen_and_loses_no_request(running: Monitored) -> None:
    """The last test of this file: one replica is gone after it, and the load goes on."""
    ending = running.replicas[1]
    instance = f"127.0.0.1:{ending.port}"
    prometheus = running.prometheus
    ready = 'sum(headlight_ready{job="headlight"})'
    ending.process.terminate()
    # It drains: it is scraped, it answers, and the balancer asks it no more.
    wait_until(lambda: prometheus.value(f'headlight_ready{{instance="{instance}"}}') == 0)
    down = 'haproxy_server_status{server="api2",state="DOWN"}'
    wait_until(lambda: prometheus.value(down) == 1)
    wait_until(lambda: prometheus.value(ready) == 1)
    ending.process.terminate()  # the second signal ends the drain
    ending.process.wait(60)
    wait_until(lambda: prometheus.value(f'up{{instance="{instance}"}}') == 0)
    pending = f'ALERTS{{alertname="HeadlightReplicaDown",instance="{instance}"}}'
    wait_until(lambda: len(prometheus.samples(pending)) == 1)
    [(labels, _)] = prometheus.samples(pending)
    assert labels["alertstate"] in {"pending", "firing"}  # it fires after a minute
    assert labels["severity"] == "ticket"
    assert prometheus.value("headlight:errors:ratio_rate5m") == 0
