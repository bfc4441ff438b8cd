"""The Helm chart: what it renders is valid and fits together, and wrong values are refused."""

import json
import os
import re
import sys
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from service.settings import PREFIX, Settings
from tests.commands import finish, printed
from tests.deploy import chart
from tests.deploy.chart import (
    CHART,
    EVERY,
    SCHEMA,
    VERSION,
    Manifest,
    container,
    one,
    pod,
    refusal,
    rendered,
)
from tests.deploy.queries import RULES, alerts, board
from tests.deploy.test_rules import needs_promtool, promtool
from tests.documentation.markdown import ROOT, codes, sections
from tests.end_to_end.servers import local_service

pytestmark = chart.needs_helm
VALUES: Manifest = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA_CONTENT: Manifest = json.loads(SCHEMA.read_text(encoding="utf-8"))
# Kinds whose schema is not that of Kubernetes itself.
CUSTOM = {"ScaledObject", "ServiceMonitor", "PrometheusRule", "HTTPRoute"}


def example(name: str) -> list[Manifest]:
    """What the chart renders of one of its files of values."""
    return chart.render("--values", str(CHART / "ci" / f"{name}-values.yaml"))


@EVERY
def test_every_example_renders_what_kubernetes_takes(values: Path) -> None:
    jsonschema.validate(yaml.safe_load(values.read_text(encoding="utf-8")), SCHEMA_CONTENT)
    manifests = chart.render("--values", str(values))
    judged = [manifest for manifest in manifests if manifest["kind"] not in CUSTOM]
    assert len(judged) >= 5
    for manifest in judged:
        for version in ("1.30", "1.37"):
            kubernetes_validate.validate(manifest, version, strict=True)
    for manifest in manifests:
        labels = manifest["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == chart.RELEASE
        assert labels["app.kubernetes.io/version"] == VERSION
        assert manifest["metadata"]["name"].startswith("headlight")

    # Selectors find replicas and not the test.
    replicas = one(manifests, "Deployment")["spec"]["template"]["metadata"]["labels"]
    tester = one(manifests, "Pod")["metadata"]["labels"]
    selectors = [
        one(manifests, "Service")["spec"]["selector"],
        one(manifests, "Deployment")["spec"]["selector"]["matchLabels"],
        one(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        *(x["labelSelector"]["matchLabels"] for x in pod(manifests)["topologySpreadConstraints"]),
    ]
    assert len(selectors) == 6
    for selector in selectors:
        assert selector.items() <= replicas.items()
        assert not selector.items() <= tester.items()


def test_the_schema_knows_every_setting_and_value_and_no_other() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA_CONTENT)
    jsonschema.validate(VALUES, SCHEMA_CONTENT)
    properties = SCHEMA_CONTENT["properties"]
    known = properties["settings"]["properties"]
    assert known == chart.settings_schema(), "run: python -m tests.deploy.chart"
    assert set(known) | chart.MANAGED == {name.upper() for name in Settings.model_fields}
    assert set(properties) == {*VALUES, "global"}
    for name, value in VALUES.items():
        inner = properties[name].get("properties")
        if isinstance(value, dict) and inner is not None and name != "settings":
            assert set(value) <= set(inner), name
            assert properties[name]["additionalProperties"] is False


def test_the_page_of_the_chart_names_every_value_and_its_version() -> None:
    items = re.findall(r"^- ([^:\n]+)", sections(CHART / "README.md")["Values"], re.MULTILINE)
    named = {name for item in items for name in codes(item)}

    def leaves(prefix: str, value: object) -> set[str]:
        if prefix in named or not isinstance(value, dict) or not value:
            return {prefix}
        inner = {f"{prefix}.{name}".removeprefix("."): each for name, each in value.items()}
        return {leaf for name, each in inner.items() for leaf in leaves(name, each)}

    assert named == leaves("", VALUES)
    described = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (described["version"], described["appVersion"]) == (VERSION, VERSION)
    assert container(chart.render())["image"].endswith(f"/headlight:{VERSION}")


def test_the_chart_is_no_weaker_than_the_plain_manifests() -> None:
    text = (ROOT / "deploy" / "kubernetes.yaml").read_text(encoding="utf-8")
    plain, default = list(yaml.safe_load_all(text)), chart.render()
    for name in (
        *("automountServiceAccountToken", "enableServiceLinks", "securityContext"),
        *("terminationGracePeriodSeconds", "volumes"),
    ):
        assert pod(default)[name] == pod(plain)[name], name
    for name in (
        *("livenessProbe", "ports", "readinessProbe", "resources", "securityContext"),
        *("startupProbe", "volumeMounts"),
    ):
        assert container(default)[name] == container(plain)[name], name
    assert chart.variables(plain).items() <= chart.variables(default).items()
    policies = [one(manifests, "NetworkPolicy")["spec"] for manifests in (default, plain)]
    assert policies[0]["ingress"] == policies[1]["ingress"]
    assert policies[0]["egress"] == policies[1]["egress"] == []


def test_a_large_number_stays_whole(tmp_path: Path) -> None:
    """Of a file of values, numbers come as floats, and 2e+06 is none for Kubernetes."""
    number = 2_000_000
    for kind in ("none", "hpa", "keda"):
        values = {
            **dict.fromkeys(("replicas", "revisionHistoryLimit", "minReadySeconds"), number),
            "autoscaling": {
                "kind": kind,
                "minReplicas": number,
                "maxReplicas": number,
                "keda": {"pollingInterval": number},
            },
            "podDisruptionBudget": {"maxUnavailable": number},
            "podSecurityContext": {"runAsUser": number},
        }
        file = tmp_path / f"{kind}.json"
        file.write_text(json.dumps(values), encoding="utf-8")
        assert "e+" not in json.dumps(chart.render("--values", str(file)))


def test_the_service_takes_the_settings_that_it_renders() -> None:
    manifests = rendered(
        'settings={"METRICS":false,"MAX_BODY_BYTES":4000000,"MAX_BATCH_TOKENS":"auto",'
        '"REQUEST_TIMEOUT":2.5,"RATE_LIMIT":"600/minute","TRUSTED_PROXIES":"10.0.0.0/8"}'
    )
    found = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in chart.variables(manifests).items()
    }
    read = Settings(**found)  # type: ignore[arg-type]
    assert (read.metrics, read.max_body_bytes, read.request_timeout) == ("off", 4_000_000, 2.5)
    assert (read.max_batch_tokens, str(read.rate_limit)) == ("auto", "600/minute")


@pytest.mark.parametrize("keys", [[], ["first", "second"], ["billing:third:key"]])
def test_the_test_of_the_chart_passes_on_a_service_and_fails_without(
    keys: list[str], checkpoint_folder: Path, tmp_path: Path
) -> None:
    tester = one(rendered(f"apiKeys.values={json.dumps(keys)}"), "Pod")
    [running] = tester["spec"]["containers"]
    file = tmp_path / "keys"
    file.write_text("\n".join(keys), encoding="utf-8")
    assert {item["name"] for item in running["env"]} == ({"URL", "KEYS"} if keys else {"URL"})
    command = [sys.executable, *running["command"][1:]]
    options = ["--api-keys-file", str(file)] if keys else []
    with local_service(checkpoint_folder, tmp_path, *options) as replica:
        environment = {**os.environ, "URL": replica.url, **({"KEYS": str(file)} if keys else {})}
        said = printed(*command, env=environment, timeout=60)
        assert re.fullmatch(r"tiny [0-9a-f]{12} (positive|negative)\n", said)
    assert finish(*command, env=environment, timeout=60).returncode == 1


def mounted(manifests: list[Manifest], name: str) -> Manifest:
    """Where the container of a replica has a volume."""
    found: list[Manifest] = container(manifests)["volumeMounts"]
    [mount] = [each for each in found if each["name"] == name]
    assert mount["readOnly"] is True
    return mount


def test_keys_come_as_a_file_from_a_secret() -> None:
    manifests = example("keys")
    assert not [manifest for manifest in manifests if manifest["kind"] == "Secret"]
    path = Path(chart.variables(manifests)["HEADLIGHT_API_KEYS_FILE"])
    [volume] = [x for x in pod(manifests)["volumes"] if x["name"] == "api-keys"]
    [item] = volume["secret"]["items"]
    assert mounted(manifests, "api-keys")["mountPath"] == str(path.parent)
    assert volume["secret"]["secretName"] == "headlight-clients"
    assert item == {"key": "api-keys", "path": path.name}
    # Keys that change replace the replicas.
    first, other = (rendered(f'apiKeys.values=["{key}"]') for key in ("one", "two"))
    digests = [
        one(x, "Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/api-keys"]
        for x in (first, other)
    ]
    assert digests[0] != digests[1]
    assert one(first, "Secret")["stringData"] == {"keys": "one\n"}


def test_a_replica_with_a_gpu_does_not_start_without() -> None:
    manifests = example("gpu")
    assert container(manifests)["image"].endswith(f":{VERSION}-cuda")
    assert container(manifests)["resources"]["limits"] == {
        "cpu": "4",
        "memory": "4Gi",
        "nvidia.com/gpu": 1,
    }
    assert chart.variables(manifests)["HEADLIGHT_DEVICE"] == "cuda"


@pytest.mark.parametrize("source", ["volume", "init"])
def test_a_checkpoint_is_mounted_read_only_where_the_service_looks(source: str) -> None:
    manifests = example(f"checkpoint-{source}")
    path = chart.variables(manifests)["HEADLIGHT_CHECKPOINT"]
    assert path == "/checkpoints/reviews-2"
    assert mounted(manifests, "checkpoint")["mountPath"] == path
    volumes = [volume["name"] for volume in pod(manifests)["volumes"]]
    assert volumes.count("checkpoint") == 1
    if source == "init":
        [copying] = pod(manifests)["initContainers"]
        assert copying["command"][-1] == "$(TARGET)"
        assert {"name": "TARGET", "value": path} in copying["env"]
        assert {"name": "checkpoint", "mountPath": path} in copying["volumeMounts"]
        assert copying["securityContext"] == container(manifests)["securityContext"]


def test_only_an_autoscaler_says_how_many_replicas_and_kedas_triggers_are_whole() -> None:
    for name, kind in (("hpa", "HorizontalPodAutoscaler"), ("keda", "ScaledObject")):
        manifests = example(name)
        deployment, scaler = one(manifests, "Deployment"), one(manifests, kind)
        assert "replicas" not in deployment["spec"]
        assert scaler["spec"]["scaleTargetRef"] == {
            "apiVersion": deployment["apiVersion"],
            "kind": "Deployment",
            "name": deployment["metadata"]["name"],
        }
    assert scaler["apiVersion"] == "keda.sh/v1alpha1"
    specification = scaler["spec"]
    assert (specification["minReplicaCount"], specification["maxReplicaCount"]) == (2, 12)
    backlog, busy, own = specification["triggers"]
    assert own["type"] == "cron"
    for trigger in (backlog, busy):
        assert trigger["type"] == "prometheus"
        assert set(trigger["metadata"]) == {"serverAddress", "query", "threshold"}
        # As KEDA takes them: text, also the number.
        assert all(isinstance(value, str) for value in trigger["metadata"].values())
        # Both are sums over all replicas, so the targets hold for each.
        assert trigger["metricType"] == "AverageValue"
    assert [each["metadata"]["threshold"] for each in (backlog, busy)] == ["0.5", "0.7"]
    behavior = specification["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    windows = {way: rule["stabilizationWindowSeconds"] for way, rule in behavior.items()}
    assert windows == {"scaleUp": 0, "scaleDown": 300}
    selector = '{namespace="demo",service="headlight"}'
    assert backlog["metadata"]["query"] == f"sum(headlight_backlog_seconds{selector})"
    assert busy["metadata"]["query"] == (
        f"sum(rate(headlight_forward_seconds_sum{selector}[1m])) / 1"
    )


@pytest.mark.parametrize(
    ("cpu", "threads", "workers"), [('"1500m"', 0, 2), ("4", 0, 4), ('"2.5"', 0, 3), ('"4"', 2, 2)]
)
def test_how_busy_counts_the_threads_of_a_replica(cpu: str, threads: int, workers: int) -> None:
    manifests = rendered(
        f"resources.limits.cpu={cpu}", f"settings.THREADS={threads}", 'autoscaling.kind="keda"'
    )
    query = one(manifests, "ScaledObject")["spec"]["triggers"][1]["metadata"]["query"]
    assert query.endswith(f" / {workers}")


def test_monitor_route_and_policy_fit_the_service() -> None:
    manifests = example("keys")
    service, monitor = one(manifests, "Service"), one(manifests, "ServiceMonitor")
    [port] = service["spec"]["ports"]
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    assert monitor["metadata"]["labels"]["release"] == "monitoring"
    selected = monitor["spec"]["selector"]["matchLabels"]
    assert selected.items() <= service["metadata"]["labels"].items()
    [endpoint] = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == (port["name"], "/metrics")
    assert endpoint["authorization"] == {
        "credentials": {"name": "headlight-scraping", "key": "key"}
    }
    route = one(manifests, "HTTPRoute")
    assert route["apiVersion"] == "gateway.networking.k8s.io/v1"
    [rule] = route["spec"]["rules"]
    assert rule["backendRefs"] == [{"name": service["metadata"]["name"], "port": port["port"]}]
    assert rule["timeouts"] == {"request": "15s"}  # longer than the service waits
    # A policy that names who may ask lets the test ask.
    [rule] = one(manifests, "NetworkPolicy")["spec"]["ingress"]
    tester = one(manifests, "Pod")["metadata"]["labels"]
    asking = [source["podSelector"]["matchLabels"] for source in rule["from"][2:]]
    assert [labels.items() <= tester.items() for labels in asking] == [True]


ENABLED = ("serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboard.enabled=true")


@needs_promtool
@pytest.mark.parametrize("name", ["", 'nameOverride="texts"', 'fullnameOverride="sentiment"'])
def test_an_alert_fires_for_a_replica_that_is_down(name: str, tmp_path: Path) -> None:
    """With the labels that the Prometheus operator gives the targets of the ServiceMonitor."""
    manifests = rendered(*ENABLED, *filter(None, [name]))
    service, monitor = one(manifests, "Service")["metadata"], one(manifests, "ServiceMonitor")
    [endpoint] = monitor["spec"]["endpoints"]
    assert "relabelings" not in endpoint
    target = {
        "job": service["labels"].get(monitor["spec"].get("jobLabel"), service["name"]),
        "namespace": chart.NAMESPACE,
        "service": service["name"],
        "pod": "replica-1",
        "instance": "10.0.0.1:8000",
    }
    rules, case = tmp_path / "rules.yml", tmp_path / "case.yml"
    rules.write_text(json.dumps(one(manifests, "PrometheusRule")["spec"]), encoding="utf-8")
    labels = ",".join(f'{key}="{value}"' for key, value in target.items())
    firing = 'count(ALERTS{alertname="HeadlightReplicaDown",alertstate="firing"})'
    expected = {"expr": firing, "eval_time": "8m", "exp_samples": [{"labels": "{}", "value": 1}]}
    test = {
        "interval": "1m",
        "input_series": [{"series": f"up{{{labels}}}", "values": "1x5 0x5"}],
        "promql_expr_test": [expected],
    }
    case.write_text(json.dumps({"rule_files": [str(rules)], "tests": [test]}), encoding="utf-8")
    tested = promtool("test", "rules", str(case))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_rules_and_board_are_those_of_the_project_with_a_page_of_your_own() -> None:
    groups = [
        group
        for name in ("recording.yml", "alerts.yml")
        for group in yaml.safe_load((RULES / name).read_text(encoding="utf-8"))["groups"]
    ]
    manifests = rendered(*ENABLED)
    assert one(manifests, "PrometheusRule")["spec"] == {"groups": groups}
    packed = one(manifests, "ConfigMap")
    assert packed["metadata"]["labels"]["grafana_dashboard"] == "1"
    [(name, text)] = packed["data"].items()
    assert name.endswith(".json")
    assert json.loads(text) == board()

    rule = one(example("monitoring"), "PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "monitoring"
    found = [rule for group in rule["spec"]["groups"] for rule in group["rules"]]
    assert {x["alert"]: x["annotations"]["runbook_url"] for x in found if "alert" in x} == {
        name: f"https://wiki.example.org/headlight/operate.html#{name.lower()}" for name in alerts()
    }


@pytest.mark.parametrize(
    ("drain", "timeout", "stop"), [(None, None, 5), (12.25, 7, 0), (0, 86400, 86400)]
)
def test_a_pod_is_never_killed_while_it_answers(
    drain: float | None, timeout: float | None, stop: int
) -> None:
    """Whatever the settings, the grace exceeds them; and less than needed is refused."""
    chosen = [
        f"settings.DRAIN_SECONDS={json.dumps(drain)}",
        f"settings.REQUEST_TIMEOUT={json.dumps(timeout)}",
        f"lifecycle.preStopSeconds={stop}",
    ]
    fields = Settings.model_fields
    first = fields["drain_seconds"].default if drain is None else drain
    second = fields["request_timeout"].default if timeout is None else timeout
    longest = first + second + stop

    manifests = rendered(*chosen)
    grace = pod(manifests)["terminationGracePeriodSeconds"]
    assert longest + 10 <= grace < longest + 11
    hook = {"preStop": {"sleep": {"seconds": stop}}} if stop else None
    assert container(manifests).get("lifecycle") == hook

    least = grace - 9
    given = pod(rendered(*chosen, f"terminationGracePeriodSeconds={least}"))
    assert given["terminationGracePeriodSeconds"] == least
    message = refusal(*chosen, f"terminationGracePeriodSeconds={least - 1}")
    assert (
        f"terminationGracePeriodSeconds is {least - 1}, must be at least {least}: "
        "preStopSeconds, DRAIN_SECONDS and REQUEST_TIMEOUT together, and one second"
    ) in message


COLLECTOR = 'extraEnv=[{"name":"OTEL_EXPORTER_OTLP_ENDPOINT","value":"http://traces:4318"}]'
SECRET_COLLECTOR = (
    'extraEnv=[{"name":"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT","valueFrom":{"secretKeyRef":{}}}]'
)
DNS = 'networkPolicy.egress=[{"ports":[{"port":53,"protocol":"UDP"},{"port":53}]}]'
COLLECTING = 'networkPolicy.egress=[{"ports":[{"port":4000,"endPort":4400}]}]'


@pytest.mark.parametrize(
    "values",
    [
        f"{COLLECTOR} networkPolicy.enabled=false",
        f'{COLLECTOR} networkPolicy.egress=[{{"to":[{{"podSelector":{{}}}}]}}]',
        f'{COLLECTOR[:-1]},{{"name":"OTEL_SDK_DISABLED","value":"true"}}]',
        COLLECTOR.replace("http://traces:4318", ""),
        f"{COLLECTOR.replace('traces:4318', '10.0.0.1:4318/v1')} {COLLECTING}",
        f"{COLLECTOR} {DNS[:-1]},{COLLECTING.partition('[')[2]}",
        f"{SECRET_COLLECTOR} {COLLECTING}",
    ],
)
def test_a_collector_of_traces_that_can_be_reached_is_taken(values: str) -> None:
    assert rendered(*values.split())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            'image.repository="registry.example.com/headlight"',
            'image.repository is "registry.example.com/headlight", which is no image: build that '
            "of the service, push it to your registry and name it, such as --set "
            "image.repository=registry.internal/headlight",
        ),
        ('settings.REQUEST_TIMEOUT="1000000"', "is 1000000 seconds, must be at most 86400, a day"),
        ('settings.DRAIN_SECONDS="86400.5"', "is 86400.5 seconds, must be at most 86400, a day"),
        ("settings.MAX_SENTENCE=1", "settings: Additional property MAX_SENTENCE is not allowed"),
        ("resources.limits.cpu=null", "resources.limits.cpu is missing"),
        (
            'checkpoint={"source":"volume","volume":{"emptyDir":{}}}',
            'checkpoint.name is empty: with checkpoint.source "volume"',
        ),
        ('checkpoint={"source":"volume","name":"a"}', "checkpoint.volume is empty"),
        ('checkpoint={"source":"init","name":"a"}', "checkpoint.init.image is empty"),
        (
            'checkpoint={"source":"init","name":"a","path":"b","init":{"image":"c"}}',
            'checkpoint.path needs checkpoint.source "image"',
        ),
        (
            'apiKeys={"existingSecret":"a","values":["b"]}',
            "apiKeys.existingSecret and apiKeys.values are both set",
        ),
        (
            'extraEnv=[{"name":"HEADLIGHT_PORT","value":"1"}]',
            "extraEnv has HEADLIGHT_PORT: settings of the service stand under `settings`",
        ),
        (COLLECTOR, "OTLP_ENDPOINT, but networkPolicy lets replicas reach nothing"),
        (f"{COLLECTOR} {DNS}", "networkPolicy lets replicas reach no TCP port 4318: allow it"),
        (f"{COLLECTOR} {COLLECTING}", "reach no UDP port 53, so its name cannot be resolved"),
        (SECRET_COLLECTOR, "OTLP_TRACES_ENDPOINT, but networkPolicy lets replicas reach nothing"),
        ('apiKeys.values=[":key"]', "apiKeys.values.0: Does not match pattern"),
        ("ingress.enabled=true", "ingress.hosts is empty"),
        ("httpRoute.enabled=true", "httpRoute.parentRefs is empty"),
        (
            "podDisruptionBudget.minAvailable=1",
            "podDisruptionBudget needs exactly one of minAvailable and maxUnavailable",
        ),
        (
            'autoscaling={"kind":"hpa","minReplicas":9}',
            "autoscaling.minReplicas is 9, more than autoscaling.maxReplicas, 8",
        ),
        ('autoscaling={"kind":"hpa","hpa":{"cpuPercent":null}}', "there is nothing to scale on"),
        (
            'topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":'
            '"ScheduleAnyway","labelSelector":{}}]',
            "topologySpreadConstraints has a labelSelector: leave it out",
        ),
        (
            "settings.METRICS=false serviceMonitor.enabled=true",
            "settings.METRICS is off: serviceMonitor.enabled",
        ),
        ('settings.METRICS="off" autoscaling.kind="keda"', 'autoscaling.kind "keda" need it'),
        (
            'settings.ALLOWED_HOSTS="a.example.org" serviceMonitor.enabled=true',
            "settings.ALLOWED_HOSTS is set, but Prometheus asks each replica by its address",
        ),
        (
            'settings.METRICS="key" serviceMonitor.enabled=true',
            "serviceMonitor.keySecret must name the secret",
        ),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(values: str, message: str) -> None:
    assert message in refusal(*values.split())
