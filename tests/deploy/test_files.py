"""The files that deploy the service agree with each other and with the service's settings."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.markers import Marker, default_environment

from service.settings import PREFIX, Settings
from service.tracing.export import FLUSH_SECONDS
from tests.client.scripted import Reply, scripted
from tests.commands import ROOT, finish
from tests.deploy.balancers import needs, program
from tests.deploy.queries import BOARD, DEPLOY, RULES

HAPROXY = (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
KUBERNETES: list[dict[str, Any]] = list(
    yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
)
_PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, BUILD = _PYPROJECT["project"], _PYPROJECT["build-system"]
PROVISIONING = DEPLOY / "grafana" / "provisioning"


def seconds(pattern: str) -> float:
    """The one duration in the balancer's configuration that a pattern leads to."""
    [(number, unit)] = re.findall(rf"{pattern} (\d+)(ms|s)\b", HAPROXY)
    return int(number) / (1000 if unit == "ms" else 1)


def deployment() -> dict[str, Any]:
    """The specification of a pod in the plain manifests."""
    [found] = [item for item in KUBERNETES if item["kind"] == "Deployment"]
    specification: dict[str, Any] = found["spec"]["template"]["spec"]
    return specification


def compose_setting(name: str) -> float:
    default: str = SERVICES["api"]["environment"][PREFIX + name].partition(":-")[2]
    return float(default.removesuffix("}"))


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def test_every_setting_that_is_named_exists() -> None:
    files = [DOCKERFILE, HAPROXY, *(path.read_text() for path in DEPLOY.glob("*.py"))]
    files += [(ROOT / name).read_text() for name in ("docker-compose.yml", "Makefile", ".ci/run")]
    files.append((DEPLOY / "kubernetes.yaml").read_text().replace("PORT=tcp", "PORT"))
    named = {name for file in files for name in re.findall(rf"\b{PREFIX}[A-Z_]+", file)}
    settings = {PREFIX + name.upper() for name in Settings.model_fields}
    assert named - settings == {PREFIX + "KERNELS", PREFIX + "TORCH"}  # of setup.py
    assert {PREFIX + "HOST", PREFIX + "PORT"} <= named


def test_nothing_is_killed_while_it_answers_and_a_drain_is_noticed_in_time() -> None:
    [falls] = re.findall(r" fall (\d+)", HAPROXY)
    noticed = seconds(" inter") + (int(falls) - 1) * seconds(" fastinter")
    assert 2 * noticed < compose_setting("DRAIN_SECONDS")
    ends = 1 + FLUSH_SECONDS
    longest = compose_setting("DRAIN_SECONDS") + compose_setting("REQUEST_TIMEOUT") + ends
    for service in SERVICES.values():
        assert float(service["stop_grace_period"].removesuffix("s")) > longest
    [container] = deployment()["containers"]
    given = {item["name"]: item["value"] for item in container["env"]}
    timeout = float(Settings.model_fields["request_timeout"].default)
    longest = float(given[f"{PREFIX}DRAIN_SECONDS"]) + timeout + ends
    assert deployment()["terminationGracePeriodSeconds"] > longest


def passed_on_names() -> set[str]:
    """Every setting and documented variable of traces, but where the balancer asks."""
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    traces = re.findall(r"^- `(OTEL_\w+)` \(", page, re.MULTILINE)
    names = {PREFIX + name.upper() for name in Settings.model_fields} | set(traces)
    return names - {PREFIX + "HOST", PREFIX + "PORT"}


def test_compose_names_every_setting_and_variable_of_traces() -> None:
    assert set(SERVICES["api"]["environment"]) == passed_on_names()


@needs("docker-compose")
def test_compose_passes_them_on() -> None:
    names = passed_on_names()

    def passed_on(**given: str) -> dict[str, str | None]:
        environment = {"PATH": os.environ["PATH"], **given}
        command = [str(program("docker-compose")), "config", "--format", "json"]
        shown = subprocess.check_output(command, cwd=ROOT, env=environment, timeout=60)
        found: dict[str, str | None] = json.loads(shown)["services"]["api"]["environment"]
        return found

    assert passed_on(**{name: f"a {name}" for name in names}) == {n: f"a {n}" for n in names}
    unset = {name for name, value in passed_on().items() if value is None}
    fixed = ("LOG_FORMAT", "REQUEST_TIMEOUT", "DRAIN_SECONDS", "TRUSTED_PROXIES")
    assert unset == names - {PREFIX + name for name in fixed}


def test_the_same_user_everywhere() -> None:
    [user] = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    context = deployment()["securityContext"]
    assert user == (str(context["runAsUser"]), str(context["runAsGroup"])) == ("10001", "10001")


LOCKS = ROOT / "requirements"
_ENTRY = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)(?: ; (?P<marker>[^\\\n]+?))? \\\n"
    r"(?P<hashes>(?:    --hash=sha256:[0-9a-f]{64} \\\n)*    --hash=sha256:[0-9a-f]{64}\n)"
)
_LINUX = {
    **{name: str(value) for name, value in default_environment().items()},
    "python_version": "3.11",
    "python_full_version": "3.11.0",
    "sys_platform": "linux",
    "platform_system": "Linux",
}


def canonical(name: str) -> str:
    """A name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(name: str) -> list[re.Match[str]]:
    """The entries of a lock; asserts that there is nothing else in it but its first line."""
    head, _, rest = (LOCKS / f"{name}.lock").read_text(encoding="utf-8").partition("\n")
    assert head.startswith("# Made by `make lock`")
    found = list(_ENTRY.finditer(rest))
    assert "".join(match[0] for match in found) == rest
    return found


def pins(*names: str) -> dict[str, str]:
    """The versions that some locks install on Linux with Python 3.11."""
    return {
        canonical(entry["name"]): entry["version"]
        for name in names
        for entry in entries(name)
        if entry["marker"] is None or Marker(entry["marker"]).evaluate(_LINUX)
    }


def pin(requirement: str) -> tuple[str, str]:
    matched = re.fullmatch(r"([A-Za-z0-9_.-]+)(?:\[\w+\])?==([^;, ]+)(?:;.*)?", requirement)
    assert matched is not None, f"{requirement} is not pinned exactly"
    return canonical(matched[1]), matched[2]


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(pin(line) for line in lines if not line.startswith("#"))


def test_every_package_is_pinned_alike() -> None:
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    named = [requirement for group in groups for requirement in group if "==" in requirement]
    wanted = dict(pin(requirement) for requirement in named)
    del wanted["torch"]
    pinned = constraints()
    assert {name: pinned.get(name) for name in wanted} == wanted


@pytest.mark.parametrize(
    "names",
    [
        ("serve", "torch-needs", "torch-cpu"),
        ("serve", "torch-needs", "torch-cuda"),
        *((name,) for name in ("hub", "otel", "sbom", "signing", "build")),
    ],
)
def test_a_lock_pins_what_the_project_names_with_hashes(names: tuple[str, ...]) -> None:
    extras = PROJECT["optional-dependencies"]
    named = {"serve": PROJECT["dependencies"], "build": BUILD["requires"], **extras}[names[0]]
    wanted = dict(map(pin, named))
    found = {name: version.partition("+")[0] for name, version in pins(*names).items()}
    assert {name: found.get(name) for name in wanted} == wanted
    for name in names:
        # Not even an index: whatever mirror gives the file, only its content counts.
        text = (LOCKS / f"{name}.lock").read_text(encoding="utf-8")
        assert "/" not in text.partition("\n")[2]
        if name in ("torch-cpu", "torch-cuda"):  # one file for x86-64 and one for ARM, at least
            [torch] = [entry for entry in entries(name) if entry["name"] == "torch"]
            assert torch["hashes"].count("sha256:") >= 2
        else:
            pinned = constraints()
            assert {package: pinned.get(package) for package in pins(name)} == pins(name)


def test_an_image_without_torch_installs_nothing_that_only_torch_needs() -> None:
    assert not set(pins("serve")) & {"torch", "sympy", "networkx", "setuptools"}
    assert {"sympy", "networkx", "setuptools"} <= set(pins("torch-needs"))


def test_the_image_installs_only_files_with_a_hash() -> None:
    steps = re.sub(r"\\\n", " ", DOCKERFILE)
    installs = re.findall(r"pip install [^;&\n]*", steps)
    assert len(installs) == 6
    [own] = [command for command in installs if "--requirement" not in command]
    assert own.rstrip().endswith(" .")
    assert {"--no-build-isolation", "--no-deps"} <= set(own.split())
    for command in installs:
        for requirement in re.findall(r"--requirement (\S+)", command):
            assert requirement.endswith(".lock")
    assert 'echo "--requirement ${name}.lock"; done >wanted.lock' in steps
    assert steps.count("PIP_REQUIRE_HASHES=1") == 2


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            "PYTHON=no-such-python",
            "no-such-python is not there: install Python 3.11 or newer, or name one: "
            "make PYTHON=/path/to/python",
        ),
        (
            "PYTHON={old}",
            "Python 3.9.1 is too old: Python 3.11 or newer is needed; name one: "
            "make PYTHON=python3.12",
        ),
        ("TORCH=rocm", "TORCH is 'rocm', must be cpu or cuda"),
    ],
)
def test_make_refuses_a_wrong_choice(choice: str, message: str, tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\n[ "$1" != --version ] || echo Python 3.9.1\nexit 1\n')
    old.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    command = ("make", "install", choice.format(old=old), f"VENV={tmp_path / 'venv'}")
    completed = finish(*command, env=env, timeout=60)
    assert completed.returncode == 2
    assert message in completed.stderr.splitlines()[0]


def test_the_health_check_of_the_image_tells_a_ready_replica_from_others() -> None:
    def check(url: str) -> int:
        environment = {**os.environ, "HEADLIGHT_PORT": url.rpartition(":")[2]}
        command = (sys.executable, "-E", "-S", DEPLOY / "healthcheck.py")
        return finish(*command, env=environment, timeout=30).returncode

    for status, code in ((200, 0), (503, 1), (404, 1)):
        with scripted([Reply(status)]) as server:
            assert check(server.url) == code
        assert [request.path for request in server.requests] == ["/health/ready"]
    assert check(server.url) == 1  # nobody is there any more


@pytest.mark.parametrize(("given", "port"), [({}, "8080"), ({"HEADLIGHT_PORT": "9"}, "9")])
def test_sagemaker_starts_the_image_by_the_word_serve(
    given: dict[str, str], port: str, tmp_path: Path
) -> None:
    [made] = re.findall(r"^RUN (printf .*?serve) &&", DOCKERFILE, re.MULTILINE)
    subprocess.run(["sh", "-c", made.replace("/opt/headlight/bin", str(tmp_path))], check=True)
    (tmp_path / "headlight-serve").write_text('#!/bin/sh\necho $HEADLIGHT_PORT "$@"\n')
    for name in ("serve", "headlight-serve"):
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    shown = subprocess.check_output(["serve", "--dtype", "a b"], env={"PATH": path, **given})
    assert shown.decode() == f"{port} --dtype a b\n"


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


@pytest.mark.parametrize("name", ["prometheus", "grafana"])
def test_what_monitors_may_do_no_more_than_it_must(name: str) -> None:
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
    # A port is published only from a network with a way out.
    networks = [COMPOSE["networks"][network] or {} for network in service["networks"]]
    assert any(not network.get("internal") for network in networks)


def test_prometheus_asks_what_listens_and_grafana_reaches_no_replica() -> None:
    assert COMPOSE["networks"]["replicas"]["internal"] is True
    networks = {name: set(SERVICES[name]["networks"]) for name in SERVICES}
    assert networks["prometheus"] & networks["api"] == {"replicas"}
    assert "replicas" in networks["prometheus"] & networks["balancer"]
    assert networks["grafana"] & networks["prometheus"] == {"monitoring"}
    assert not networks["grafana"] & networks["api"]
    jobs = {job["job_name"]: job for job in read(RULES / "prometheus.yml")["scrape_configs"]}
    [found] = jobs["headlight"]["dns_sd_configs"]
    assert found["names"] == ["api"]
    assert [str(found["port"])] == SERVICES["api"]["expose"]
    [fixed] = jobs["haproxy"]["static_configs"]
    [(host, port)] = [target.split(":") for target in fixed["targets"]]
    assert host in SERVICES
    assert f"bind :{port}\n" in HAPROXY


def test_prometheus_and_grafana_find_their_files() -> None:
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

    [source] = read(PROVISIONING / "datasources" / "prometheus.yaml")["datasources"]
    host, port = source["url"].removeprefix("http://").split(":")
    assert SERVICES[host]["ports"][0].endswith(f":{port}")
    interval = read(RULES / "prometheus.yml")["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == interval
    [provider] = read(PROVISIONING / "dashboards" / "headlight.yaml")["providers"]
    assert list(seen("grafana", provider["options"]["path"]).glob("*.json")) == [BOARD]
    assert seen("grafana", "/etc/grafana/provisioning") == PROVISIONING

    # Nobody can log in, and nothing is loaded.
    environment = SERVICES["grafana"]["environment"]
    home = environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert seen("grafana", home) == BOARD
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    for name in ("GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION", "GF_PLUGINS_PREINSTALL_DISABLED"):
        assert environment[name] == "true"
    assert not [name for name in environment if "PASSWORD" in name]
