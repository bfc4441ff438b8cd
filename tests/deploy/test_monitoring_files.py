"""The profile `monitoring` of the compose file fits the files that its containers read."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.containers.engine import ROOT
from tests.deploy.queries import BOARD, DEPLOY, RULES

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PROVISIONING = DEPLOY / "grafana" / "provisioning"
MONITORING = ("prometheus", "grafana")


def read(path: Path) -> dict[str, Any]:
    """A file of YAML."""
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def mounts(service: str) -> dict[str, Path]:
    """The files and folders of the project that a container sees, by where it sees them."""
    found = {}
    for volume in SERVICES[service]["volumes"]:
        source, target, *mode = volume.split(":")
        if source.startswith("."):
            assert mode == ["ro"]
            found[target] = ROOT / source
    return found


def seen(service: str, path: str) -> Path:
    """The file of the project that a container sees at a path."""
    [(target, source)] = [
        (target, source) for target, source in mounts(service).items() if path.startswith(target)
    ]
    return source / path.removeprefix(target).lstrip("/")


@pytest.mark.parametrize("name", MONITORING)
def test_they_may_do_no_more_than_they_must(name: str) -> None:
    service = SERVICES[name]
    assert service["profiles"] == ["monitoring"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}
    assert re.fullmatch(r"\$\{\w+:-[a-z]+/[a-z]+:v?\d+\.\d+\.\d+\}", service["image"])
    for port in service["ports"]:
        assert re.fullmatch(r"\$\{\w+:-127\.0\.0\.1:\d+\}:\d+", port)
    for source in mounts(name).values():
        assert source.is_dir()


def test_prometheus_reaches_the_replicas_and_grafana_does_not() -> None:
    assert COMPOSE["networks"]["replicas"]["internal"] is True
    networks = {name: set(SERVICES[name]["networks"]) for name in SERVICES}
    assert networks["prometheus"] & networks["api"] == {"replicas"}
    assert "replicas" in networks["prometheus"] & networks["balancer"]
    assert networks["grafana"] & networks["prometheus"] == {"monitoring"}
    assert not networks["grafana"] & networks["api"]
    # A port is published only from a network with a way out.
    for name in MONITORING:
        assert any(
            not (COMPOSE["networks"][network] or {}).get("internal") for network in networks[name]
        )


def test_prometheus_asks_what_listens() -> None:
    jobs = {job["job_name"]: job for job in read(RULES / "prometheus.yml")["scrape_configs"]}
    [found] = jobs["headlight"]["dns_sd_configs"]
    assert found["names"] == ["api"]
    assert [str(found["port"])] == SERVICES["api"]["expose"]
    [fixed] = jobs["haproxy"]["static_configs"]
    [balancer] = [target.split(":") for target in fixed["targets"]]
    assert balancer[0] in SERVICES
    assert f"bind :{balancer[1]}\n" in (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")


def test_prometheus_finds_its_files_and_keeps_exemplars() -> None:
    command = SERVICES["prometheus"]["command"]
    [configuration] = [word for word in command if word.startswith("--config.file=")]
    path = seen("prometheus", configuration.partition("=")[2])
    assert path == RULES / "prometheus.yml"
    for name in read(path)["rule_files"]:
        assert (path.parent / name).is_file()
    assert "--enable-feature=exemplar-storage" in command
    [data] = [word for word in command if word.startswith("--storage.tsdb.path=")]
    volumes = dict(volume.split(":")[:2] for volume in SERVICES["prometheus"]["volumes"])
    assert volumes["prometheus"] == data.partition("=")[2]
    assert "prometheus" in COMPOSE["volumes"]


def test_grafana_finds_prometheus_and_the_board() -> None:
    [source] = read(PROVISIONING / "datasources" / "prometheus.yaml")["datasources"]
    host, port = source["url"].removeprefix("http://").split(":")
    assert SERVICES[host]["ports"][0].endswith(f":{port}")
    [provider] = read(PROVISIONING / "dashboards" / "headlight.yaml")["providers"]
    assert list(seen("grafana", provider["options"]["path"]).glob("*.json")) == [BOARD]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert seen("grafana", home) == BOARD
    assert seen("grafana", "/etc/grafana/provisioning") == PROVISIONING
    interval = read(RULES / "prometheus.yml")["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == interval


def test_nobody_can_log_in_to_grafana_and_it_loads_nothing() -> None:
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    for name in ("GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION", "GF_PLUGINS_PREINSTALL_DISABLED"):
        assert environment[name] == "true"
    assert not [name for name in environment if "PASSWORD" in name]
