"""The times and limits of each balancer's configuration fit those of the service."""

import re

import pytest

from service.http import server
from service.settings import Settings
from tests.deploy.balancers import DEPLOY

FIELDS = Settings.model_fields
FILES = {
    "haproxy": "haproxy.cfg",
    "envoy": "envoy.yaml",
    "traefik": "traefik/routes.yaml",
    "caddy": "Caddyfile",
    "nginx": "nginx.conf",
}
# Where each configuration says how long it waits for an answer, keeps an idle connection, lets a
# check and the next after a failure be apart, and how large a body may be.
WAITS = {
    "haproxy": r"timeout server (\w+)",
    "envoy": r"^ +timeout: (15s)$",
    "traefik": r"responseHeaderTimeout: (\w+)",
    "caddy": r"response_header_timeout (\w+)",
    "nginx": r"proxy_read_timeout (\w+);",
}
IDLE = {
    "haproxy": r"pool-purge-delay (\w+)",
    "envoy": r"^ +common_http_protocol_options: \{idle_timeout: (10s)\}",
    "traefik": r"idleConnTimeout: (\w+)",
    "caddy": r"keepalive (\w+)",
    "nginx": r"    keepalive_timeout (10s);",
}
CHECKS = {
    "envoy": r"^ +interval: (\w+)$",
    "traefik": r" interval: (\w+)",
    "caddy": r"health_interval (\w+)",
}
BODIES = {
    "envoy": r"max_request_bytes: (\d+)",
    "traefik": r"maxRequestBodyBytes: (\d+)",
    "caddy": r"max_size (\w+)",
    "nginx": r"client_max_body_size (\w+);",
}
UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "MB": 1e6, "m": 1024.0**2}


def _value(name: str, pattern: str) -> float:
    text = (DEPLOY / FILES[name]).read_text(encoding="utf-8")
    [found] = re.findall(pattern, text, re.MULTILINE)
    number, unit = re.fullmatch(r"([\d.]+)([a-zA-Z]*)", found).groups()  # type: ignore[union-attr]
    return float(number) * UNITS[unit]


@pytest.mark.parametrize("name", WAITS)
def test_the_service_gives_up_before_the_balancer_does(name: str) -> None:
    assert _value(name, WAITS[name]) > FIELDS["request_timeout"].default


@pytest.mark.parametrize("name", IDLE)
def test_no_connection_is_used_that_a_replica_has_closed(name: str) -> None:
    assert _value(name, IDLE[name]) < server._KEEP_ALIVE_SECONDS


@pytest.mark.parametrize("name", CHECKS)
def test_a_draining_replica_is_noticed_in_time(name: str) -> None:
    """Two checks in a row, and as long again."""
    assert 2 * 2 * _value(name, CHECKS[name]) < FIELDS["drain_seconds"].default


@pytest.mark.parametrize("name", BODIES)
def test_the_service_itself_refuses_a_body_that_is_too_large(name: str) -> None:
    assert _value(name, BODIES[name]) > FIELDS["max_body_bytes"].default


def test_a_balancer_ends_after_the_last_answer() -> None:
    ends = {
        "Caddyfile": r"grace_period (\d+)s",
        "nginx.conf": r"worker_shutdown_timeout (\d+)s",
        "traefik/traefik.yaml": r"graceTimeOut: (\d+)s",
    }
    for file, pattern in ends.items():
        [seconds] = re.findall(pattern, (DEPLOY / file).read_text(encoding="utf-8"))
        assert int(seconds) > FIELDS["request_timeout"].default, file
