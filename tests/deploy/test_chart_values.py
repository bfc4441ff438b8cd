"""Wrong values of the Helm chart are refused by their names, and times that do not fit."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.settings import Settings
from tests.deploy import chart
from tests.deploy.chart import container, pod, refusal, rendered

pytestmark = chart.needs_helm


@settings(max_examples=4)
@given(
    drain=st.one_of(st.none(), st.integers(0, 86400), st.floats(0, 90).map(lambda x: round(x, 2))),
    timeout=st.one_of(st.none(), st.integers(1, 86400)),
    stop=st.integers(0, 60) | st.just(86400),
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
    assert (
        pod(rendered(*chosen, f"terminationGracePeriodSeconds={least}"))[
            "terminationGracePeriodSeconds"
        ]
        == least
    )
    message = refusal(*chosen, f"terminationGracePeriodSeconds={least - 1}")
    assert (
        f"terminationGracePeriodSeconds is {least - 1}, must be at least {least}: "
        "preStopSeconds, DRAIN_SECONDS and REQUEST_TIMEOUT together, and one second"
    ) in message


@pytest.mark.parametrize("image", ["", "registry.example.com/headlight"])
def test_a_placeholder_is_not_installed(image: str) -> None:
    assert (
        f'image.repository is "{image}", which is no image: build that of the service, push it to '
        "your registry and name it, such as --set image.repository=registry.internal/headlight"
    ) in refusal(f'image.repository="{image}"')


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("settings.REQUEST_TIMEOUT=1000000", "Must be less than or equal to 86400"),
        ('settings.REQUEST_TIMEOUT="1000000"', "is 1000000 seconds, must be at most 86400, a day"),
        ("settings.DRAIN_SECONDS=1e30", "Must be less than or equal to 86400"),
        ('settings.DRAIN_SECONDS="86400.5"', "is 86400.5 seconds, must be at most 86400, a day"),
        ("lifecycle.preStopSeconds=86401", "Must be less than or equal to 86400"),
    ],
)
def test_a_time_that_no_pod_waits_for_is_refused(value: str, message: str) -> None:
    assert re.search(re.escape(value.partition("=")[0]) + r":? " + message, refusal(value))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("settings.MAX_SENTENCE=1", "settings: Additional property MAX_SENTENCE is not allowed"),
        (
            "settings.MAX_SENTENCES=0",
            "settings.MAX_SENTENCES: Must be greater than or equal to 1",
        ),
        ('settings.MAX_CONNECTIONS="many"', "settings.MAX_CONNECTIONS: Does not match pattern"),
        ('prometheusRule.runbookUrl="wiki"', "prometheusRule.runbookUrl: Does not match pattern"),
        ('gpu.enabled="yes"', "gpu.enabled: Invalid type. Expected: boolean, given: string"),
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
        ('apiKeys.values=["a,b"]', "apiKeys.values.0: Does not match pattern"),
        (
            'apiKeys={"existingSecret":"a","values":["b"]}',
            "apiKeys.existingSecret and apiKeys.values are both set",
        ),
        (
            'extraEnv=[{"name":"HEADLIGHT_PORT","value":"1"}]',
            "extraEnv has HEADLIGHT_PORT: settings of the service stand under `settings`",
        ),
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
        (
            'autoscaling={"kind":"hpa","hpa":{"cpuPercent":null}}',
            "there is nothing to scale on",
        ),
        ('autoscaling.kind="vpa"', 'one of the following: "none", "hpa", "keda"'),
        (
            'topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":'
            '"ScheduleAnyway","labelSelector":{}}]',
            "topologySpreadConstraints has a labelSelector: leave it out",
        ),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(value: str, message: str) -> None:
    assert message in refusal(value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ("settings.METRICS=false", "serviceMonitor.enabled=true"),
            "settings.METRICS is off: serviceMonitor.enabled",
        ),
        (
            ('settings.METRICS="off"', "prometheusRule.enabled=true"),
            "prometheusRule.enabled and",
        ),
        (
            ('settings.METRICS="off"', 'autoscaling.kind="keda"'),
            'autoscaling.kind "keda" need it',
        ),
        (
            ('settings.ALLOWED_HOSTS="a.example.org"', "serviceMonitor.enabled=true"),
            "settings.ALLOWED_HOSTS is set, but Prometheus asks each replica by its address",
        ),
        (
            ('settings.METRICS="key"', "serviceMonitor.enabled=true"),
            "serviceMonitor.keySecret must name the secret",
        ),
    ],
)
def test_values_that_do_not_fit_are_refused(values: tuple[str, ...], message: str) -> None:
    assert message in refusal(*values)
