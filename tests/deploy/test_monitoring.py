"""A real Prometheus finds data for every panel and every rule of the project."""

import json
import math
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tests.builders import tiny_baseline, tiny_checkpoint, tiny_manifest
from tests.deploy.balancers import answers, balancer, free_ports, needs, running_process
from tests.deploy.queries import RULES, panel_queries, recorded, rules
from tests.end_to_end.servers import local_service, wait_until

pytestmark = needs("haproxy", "prometheus")
# Shorter than in production, so that the test ends soon.
INTERVAL = "1s"


def ask(url: str, path: str, **parameters: str) -> dict[str, Any]:
    """What the API of Prometheus says."""
    answer = httpx.get(f"{url}/api/v1/{path}", params=parameters, timeout=60).json()
    assert answer["status"] == "success", answer
    data: dict[str, Any] = answer["data"]
    return data


def has_data(url: str, expression: str) -> bool:
    """Whether an expression has a value that is a number."""
    found = ask(url, "query", query=expression)["result"]
    return any(not math.isnan(float(each["value"][1])) for each in found)


def write_configuration(folder: Path, replica: int, metrics_port: int) -> None:
    """Copies the project's configuration, with addresses of this machine and less patience."""
    shutil.copytree(RULES, folder / "prometheus")
    path = folder / "prometheus" / "prometheus.yml"
    text = path.read_text(encoding="utf-8")
    targets = json.dumps([f"127.0.0.1:{replica}"])
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


@contextmanager
def load(url: str) -> Iterator[None]:
    """Asks for all that is measured, again and again."""
    stop = threading.Event()
    statuses = set()

    def run() -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            while not stop.wait(0.05):  # leaves the processors to other tests
                for path, body in (
                    ("/predict", {"sentences": ["a good film", "bad", "a " * 40]}),
                    *(
                        (path, {"sentence": "good"})
                        for path in ("/attention", "/attributions", "/importance")
                    ),
                ):
                    statuses.add(client.post(path, json=body).status_code)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert statuses == {200}


def test_every_panel_and_every_rule_has_data(tmp_path: Path) -> None:
    manifest = tiny_manifest(baseline=tiny_baseline())
    checkpoint = tiny_checkpoint(tmp_path / "tiny", manifest=manifest)
    with ExitStack() as stack:
        replica = stack.enter_context(
            local_service(checkpoint, tmp_path, "--max-batch-tokens", "64")
        )
        front = stack.enter_context(balancer("haproxy", [replica.port], tmp_path))
        write_configuration(tmp_path, replica.port, front.metrics_port)
        [port] = free_ports(1)
        command = (
            "prometheus",
            f"--config.file={tmp_path}/prometheus/prometheus.yml",
            f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{port}",
            "--enable-feature=exemplar-storage",
        )
        stack.enter_context(running_process(command, tmp_path / "prometheus.log"))
        url = f"http://127.0.0.1:{port}"
        wait_until(partial(answers, f"{url}/-/ready"))
        wait_until(partial(answers, f"{front.url}/health/ready"))
        stack.enter_context(load(front.url))

        for expression in ("sum(up) == 2", *panel_queries(), *recorded()):
            wait_until(partial(has_data, url, expression))
        healths = {
            rule["name"]: rule["health"]
            for group in ask(url, "rules")["groups"]
            for rule in group["rules"]
        }
        assert healths == {rule.get("alert") or rule["record"]: "ok" for rule in rules()}
        assert not has_data(url, 'ALERTS{severity="page",alertstate="firing"}')
