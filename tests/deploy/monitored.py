"""Runs two replicas behind HAProxy, and a Prometheus that asks all three by the project's rules."""

import json
import math
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tests.deploy.balancers import Replicas, answers, balancer, free_ports, running_process
from tests.deploy.queries import RULES
from tests.end_to_end.servers import RunningService, wait_until

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


def _write_configuration(folder: Path, replicas: list[int], balancer: int) -> None:
    """Copies the project's configuration, with addresses of this machine and less patience."""
    shutil.copytree(RULES, folder / "prometheus")
    path = folder / "prometheus" / "prometheus.yml"
    text = path.read_text(encoding="utf-8")
    targets = json.dumps([f"127.0.0.1:{port}" for port in replicas])
    for pattern, instead in {
        r"dns_sd_configs:\n +- \{names: \[api\].*\}": f"static_configs: [{{targets: {targets}}}]",
        r"balancer:8405": f"127.0.0.1:{balancer}",
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
