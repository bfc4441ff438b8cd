"""The autoscaler's loop over real replicas, HAProxy and Prometheus, by the chart's own queries."""

import os
import shutil
from pathlib import Path

import pytest

from tests.deploy import chart
from tests.resilience.autoscaler import Rules
from tests.resilience.scaling_loop import Options, running_loop

missing = [name for name in ("haproxy", "prometheus") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.skipif(
        bool(missing) and "CI" not in os.environ, reason=f"{' and '.join(missing)} is not installed"
    ),
    pytest.mark.slow,
    chart.needs_helm,
]
# A pass of one text takes a twentieth of a second, so a replica answers 20 requests a second.
_PASS_SECONDS = 0.05


def test_replicas_follow_the_load_and_no_request_is_lost(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    manifests = chart.rendered(
        'autoscaling={"kind":"keda","minReplicas":1,"maxReplicas":3,"scaleDownWindowSeconds":6,'
        '"keda":{"rateWindow":"4s"}}'
    )
    rules = Rules.read(chart.one(manifests, "ScaledObject"))
    labels = {"namespace": chart.NAMESPACE, "service": chart.RELEASE}
    options = Options(checkpoint_folder, tmp_path, _PASS_SECONDS, 1, 1.0, labels)

    with running_loop(options, rules) as loop:
        loop.load.rate = 5
        calm = [loop.step() for _ in range(5)]
        assert {sample.asked for sample in calm} == {1}

        # What two replicas are kept busy by, at the share of 0.7 that the chart wants.
        loop.load.rate = 25
        risen = loop.step_until(lambda sample: sample.ready >= 2, seconds=60)
        triggers = {trigger.name: trigger.target for trigger in rules.triggers}
        reasons = [
            name
            for sample in loop.samples
            for name, value in sample.measured.items()
            if sample.asked > 1 and value > triggers[name]
        ]
        assert "busy" in reasons
        assert risen.asked in (2, 3)

        loop.load.rate = 4
        fallen = loop.step_until(lambda sample: sample.asked == sample.ready == 1, seconds=90)
        assert fallen.seconds - risen.seconds >= rules.down_seconds
        assert all(value <= triggers[name] for name, value in fallen.measured.items())
        loop.load.rate = 0
    assert loop.load.lost == {}
    assert loop.load.statuses["200"] >= 50
    assert loop.replicas.faults == []
