"""Lets replicas follow a load that rises and falls, and draws how they did.

    python -m tests.resilience.autoscaling --plot docs/images/autoscaling.svg

The numbers of replicas are what KEDA and Kubernetes would choose by the ScaledObject of the Helm
chart: its queries are answered by a real Prometheus that scrapes the replicas. Prints how long it
took from the load that needs a replica until that replica was ready. The status is 1 if a request
was lost.
"""

import argparse
import importlib
import itertools
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.deploy import chart
from tests.end_to_end.servers import ROOT
from tests.resilience.autoscaler import Rules
from tests.resilience.scaling_loop import Loop, Options, running_loop

# Seconds, and requests a second at that moment; straight lines between them.
PROFILE = ((0.0, 5.0), (60.0, 5.0), (180.0, 60.0), (300.0, 60.0), (360.0, 5.0), (540.0, 5.0))
_PASS_SECONDS = 0.05
_SYNC_SECONDS = 15.0
_VALUES = 'autoscaling={"kind":"keda","minReplicas":2,"maxReplicas":6,"scaleDownWindowSeconds":60}'
# From the palette of Okabe and Ito (2008), which colour-blind readers can tell apart.
_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#666666"


def rate_at(seconds: float) -> float:
    """Requests a second at a moment of the profile."""
    for (begin, first), (end, last) in itertools.pairwise(PROFILE):
        if seconds <= end:
            return first + (last - first) * (seconds - begin) / (end - begin)
    return PROFILE[-1][1]


def needed_at(count: int, *, each: float) -> float | None:
    """When the load first needs so many replicas, each for so many requests a second."""
    steps = (second / 10 for second in range(int(PROFILE[-1][0]) * 10))
    return next((moment for moment in steps if rate_at(moment) > each * (count - 1)), None)


def lags(loop: Loop, rules: Rules) -> dict[int, float]:
    """Seconds from the need of a replica until it was ready, by its number."""
    [busy] = [trigger.target for trigger in rules.triggers if trigger.name == "busy"]
    found = {}
    for count in range(rules.least + 1, rules.most + 1):
        needed = needed_at(count, each=busy / _PASS_SECONDS)
        ready = [when - loop.begin for when, there in loop.replicas.changes if there >= count]
        if needed is not None and ready:
            found[count] = min(ready) - needed
    return found


def run(loop: Loop) -> None:
    """Sends the profile, and decides until it is over."""
    over = threading.Event()

    def follow() -> None:
        while not over.wait(0.25):
            loop.load.rate = rate_at(time.monotonic() - loop.begin)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        while time.monotonic() - loop.begin < PROFILE[-1][0]:
            sample = loop.step()
            measured = ", ".join(f"{name} {x:.2f}" for name, x in sample.measured.items())
            print(
                f"{sample.seconds:4.0f} s: {sample.rate:4.1f} requests a second, {measured}, "
                f"{sample.ready} ready, {sample.asked} asked for",
                flush=True,
            )
    finally:
        over.set()
        thread.join()


def waits(loop: Loop, *, step: float = 5.0) -> list[tuple[float, float]]:
    """The time that 95 % of the requests took at most, for each step of the run."""
    found = []
    for number in range(int(PROFILE[-1][0] / step)):
        begin = loop.begin + number * step
        took = sorted(took for when, took in loop.load.answers if begin <= when < begin + step)
        if took:
            found.append(
                (number * step + step / 2, took[min(len(took) - 1, len(took) * 95 // 100)])
            )
    return found


def draw(loop: Loop, path: Path) -> None:
    """Writes the load, the replicas and the waits, one above the other, as SVG."""
    matplotlib = importlib.import_module("matplotlib")
    figures = importlib.import_module("matplotlib.figure")
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "headlight"}):
        figure = figures.Figure(figsize=(8, 7), layout="constrained")
        load, replicas, answers = figure.subplots(3, 1, sharex=True)
        seconds = list(range(int(PROFILE[-1][0]) + 1))
        load.plot(seconds, [rate_at(second) for second in seconds], color=_BLUE, label="sent")
        ready = [
            (when - loop.begin, count)
            for when, count in loop.replicas.changes
            if when - loop.begin < seconds[-1]  # then all of them end
        ]
        began = [count for when, count in ready if when <= 0][-1]
        times = [0.0, *(when for when, _ in ready if when > 0), float(seconds[-1])]
        counts = [began, *(count for when, count in ready if when > 0)]
        counts.append(counts[-1])
        load.step(
            times,
            [count / _PASS_SECONDS for count in counts],
            where="post",
            color=_GREY,
            linestyle="--",
            label="what the ready replicas can answer",
        )
        load.set_ylabel("requests a second")
        replicas.step(
            [sample.seconds for sample in loop.samples],
            [sample.asked for sample in loop.samples],
            where="post",
            color=_ORANGE,
            label="asked for",
        )
        replicas.step(times, counts, where="post", color=_GREEN, label="ready")
        replicas.set_ylabel("replicas")
        replicas.set_ylim(bottom=0)
        took = waits(loop)
        answers.plot(*zip(*took, strict=True), color=_BLUE, label="95 % are answered within")
        answers.plot(
            [sample.seconds for sample in loop.samples],
            [sample.measured.get("backlog", 0.0) / sample.ready for sample in loop.samples],
            color=_ORANGE,
            label="backlog of a replica",
        )
        answers.set_ylabel("seconds")
        answers.set_xlabel("seconds since the start")
        for axes in (load, replicas, answers):
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.3)
            axes.legend(loc="upper right")
        figure.savefig(path, format="svg", metadata={"Date": None})


def main() -> int:
    """Runs the loop."""
    parser = argparse.ArgumentParser(description="Replicas that follow a load.")
    parser.add_argument("--plot", type=Path, help="where to draw what happened, as SVG")
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "checkpoints" / "default")
    given = parser.parse_args()
    rules = Rules.read(chart.one(chart.rendered(_VALUES), "ScaledObject"))
    labels = {"namespace": chart.NAMESPACE, "service": chart.RELEASE}
    with tempfile.TemporaryDirectory() as folder:
        options = Options(given.checkpoint, Path(folder), _PASS_SECONDS, 15, _SYNC_SECONDS, labels)
        with running_loop(options, rules) as loop:
            run(loop)
    slow = max(took for _, took in loop.load.answers)
    print(f"answers: {loop.load.statuses}; the slowest took {slow:.2f} s")
    for count, seconds in lags(loop, rules).items():
        print(f"replica {count} was ready {seconds:.0f} s after the load needed it")
    print(f"faults: {loop.replicas.faults or 'none'}")
    if given.plot is not None:
        draw(loop, given.plot)
    return 1 if loop.load.lost or loop.replicas.faults else 0


if __name__ == "__main__":
    sys.exit(main())
