"""What the Helm chart renders for each choice: keys, checkpoints, GPUs, autoscalers, selectors."""

from pathlib import Path

import pytest

from tests.deploy import chart
from tests.deploy.chart import CHART, EVERY, VERSION, container, one, pod, rendered

pytestmark = chart.needs_helm


def test_keys_come_as_a_file_from_a_secret_that_is_there() -> None:
    manifests = chart.render("--values", str(CHART / "ci" / "keys-values.yaml"))
    assert not [manifest for manifest in manifests if manifest["kind"] == "Secret"]
    path = Path(chart.variables(manifests)["HEADLIGHT_API_KEYS_FILE"])
    [mount] = [x for x in container(manifests)["volumeMounts"] if x["name"] == "api-keys"]
    [volume] = [x for x in pod(manifests)["volumes"] if x["name"] == "api-keys"]
    [item] = volume["secret"]["items"]
    assert (mount["mountPath"], mount["readOnly"]) == (str(path.parent), True)
    assert volume["secret"]["secretName"] == "headlight-clients"
    assert item == {"key": "api-keys", "path": path.name}


def test_keys_that_change_replace_the_replicas() -> None:
    first, same, other = (rendered(f'apiKeys.values=["{key}"]') for key in ("one", "one", "two"))
    digests = [
        one(x, "Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/api-keys"]
        for x in (first, same, other)
    ]
    assert digests[0] == digests[1] != digests[2]
    assert one(first, "Secret")["stringData"] == {"keys": "one\n"}


def test_a_replica_with_a_gpu_does_not_start_without() -> None:
    manifests = chart.render("--values", str(CHART / "ci" / "gpu-values.yaml"))
    assert container(manifests)["image"].endswith(f":{VERSION}-cuda")
    assert container(manifests)["resources"]["limits"] == {
        "cpu": "4",
        "memory": "4Gi",
        "nvidia.com/gpu": 1,
    }
    assert chart.variables(manifests)["HEADLIGHT_DEVICE"] == "cuda"


@pytest.mark.parametrize("source", ["volume", "init"])
def test_a_checkpoint_is_mounted_read_only_where_the_service_looks(source: str) -> None:
    manifests = chart.render("--values", str(CHART / "ci" / f"checkpoint-{source}-values.yaml"))
    path = chart.variables(manifests)["HEADLIGHT_CHECKPOINT"]
    assert path == "/checkpoints/reviews-2"
    [mount] = [x for x in container(manifests)["volumeMounts"] if x["name"] == "checkpoint"]
    assert (mount["mountPath"], mount["readOnly"]) == (path, True)
    volumes = [volume["name"] for volume in pod(manifests)["volumes"]]
    assert volumes.count("checkpoint") == 1
    if source == "init":
        [copying] = pod(manifests)["initContainers"]
        assert copying["command"][-1] == "$(TARGET)"
        assert {"name": "TARGET", "value": path} in copying["env"]
        assert {"name": "checkpoint", "mountPath": path} in copying["volumeMounts"]
        assert copying["securityContext"] == container(manifests)["securityContext"]


@pytest.mark.parametrize("kind", ["hpa", "keda"])
def test_an_autoscaler_alone_says_how_many_replicas(kind: str) -> None:
    manifests = chart.render("--values", str(CHART / "ci" / f"{kind}-values.yaml"))
    deployment = one(manifests, "Deployment")
    assert "replicas" not in deployment["spec"]
    scaler = one(manifests, {"hpa": "HorizontalPodAutoscaler", "keda": "ScaledObject"}[kind])
    assert scaler["spec"]["scaleTargetRef"] == {
        "apiVersion": deployment["apiVersion"],
        "kind": "Deployment",
        "name": deployment["metadata"]["name"],
    }


def test_kedas_triggers_are_whole() -> None:
    scaler = one(chart.render("--values", str(CHART / "ci" / "keda-values.yaml")), "ScaledObject")
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
        assert float(trigger["metadata"]["threshold"]) > 0
    selector = '{namespace="demo",service="headlight"}'
    assert backlog["metadata"]["query"] == f"sum(headlight_backlog_seconds{selector})"
    assert busy["metadata"]["query"] == (
        f"sum(rate(headlight_forward_seconds_sum{selector}[1m])) / 1"
    )


@pytest.mark.parametrize(
    ("cpu", "threads", "workers"),
    [('"1"', 0, 1), ('"1500m"', 0, 2), ("4", 0, 4), ('"2.5"', 0, 3), ('"4"', 2, 2)],
)
def test_how_busy_counts_the_threads_of_a_replica(cpu: str, threads: int, workers: int) -> None:
    manifests = rendered(
        f"resources.limits.cpu={cpu}", f"settings.THREADS={threads}", 'autoscaling.kind="keda"'
    )
    query = one(manifests, "ScaledObject")["spec"]["triggers"][1]["metadata"]["query"]
    assert query.endswith(f" / {workers}")


def test_a_monitor_selects_the_service() -> None:
    manifests = chart.render("--values", str(CHART / "ci" / "keys-values.yaml"))
    monitor = one(manifests, "ServiceMonitor")
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    assert monitor["metadata"]["labels"]["release"] == "monitoring"
    service_ = one(manifests, "Service")
    labels = service_["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["port"] == service_["spec"]["ports"][0]["name"]
    assert endpoint["path"] == "/metrics"
    assert endpoint["authorization"] == {
        "credentials": {"name": "headlight-scraping", "key": "key"}
    }


def test_a_route_leads_to_the_service_and_waits_longer_than_it() -> None:
    manifests = chart.render("--values", str(CHART / "ci" / "keys-values.yaml"))
    route = one(manifests, "HTTPRoute")
    assert route["apiVersion"] == "gateway.networking.k8s.io/v1"
    [rule] = route["spec"]["rules"]
    service_ = one(manifests, "Service")
    assert rule["backendRefs"] == [
        {"name": service_["metadata"]["name"], "port": service_["spec"]["ports"][0]["port"]}
    ]
    assert rule["timeouts"] == {"request": "15s"}


@EVERY
def test_selectors_find_replicas_and_not_the_test(values: Path) -> None:
    manifests = chart.render("--values", str(values))
    replicas = one(manifests, "Deployment")["spec"]["template"]["metadata"]["labels"]
    tester = one(manifests, "Pod")["metadata"]["labels"]
    selectors = [
        one(manifests, "Service")["spec"]["selector"],
        one(manifests, "Deployment")["spec"]["selector"]["matchLabels"],
        one(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        *(
            constraint["labelSelector"]["matchLabels"]
            for constraint in pod(manifests)["topologySpreadConstraints"]
        ),
    ]
    assert len(selectors) == 6
    for selector in selectors:
        assert selector.items() <= replicas.items()
        assert not selector.items() <= tester.items()


def test_a_policy_that_names_who_may_ask_lets_the_test_ask() -> None:
    manifests = chart.render("--values", str(CHART / "ci" / "keys-values.yaml"))
    [rule] = one(manifests, "NetworkPolicy")["spec"]["ingress"]
    selected = [source["podSelector"]["matchLabels"] for source in rule["from"][2:]]
    tester = one(manifests, "Pod")["metadata"]["labels"]
    assert [labels.items() <= tester.items() for labels in selected] == [True]
