"""What `benchmarks.traces` measures and prints."""

import argparse
import os
import shutil
import urllib.request
from pathlib import Path

import pytest

from benchmarks import traces, wrk
from benchmarks.servers import ROOT
from benchmarks.traces import Found, Round, collector, main, measure, parser, tables
from benchmarks.wrk import Figures
from tests.documentation.markdown import code, rows

needs_wrk = pytest.mark.skipif(
    shutil.which("wrk") is None and "CI" not in os.environ, reason="wrk is not installed"
)


def measured(rate: float, p99: float, processor_seconds: float) -> Round:
    return Round(Figures(rate, p99 / 2, p99), processor_seconds)


def test_the_table_has_medians_ranges_and_ratios_within_a_round() -> None:
    found = Found(
        [measured(100.0, 0.1, 0.002), measured(200.0, 0.05, 0.001), measured(50, 0.2, 0.004)],
        [measured(98.0, 0.1, 0.00202), measured(180.0, 0.06, 0.001), measured(49, 0.1, 0.0044)],
    )
    assert tables(found, 0.1).splitlines() == [
        "| traces          | sentences/s |         range | p99 ms |         range | processor µs |"
        "            range |",
        "| --------------- | ----------- | ------------: | -----: | ------------: | -----------: |"
        " ---------------: |",
        "| off             | 100.0       | 50.0 to 200.0 |  100.0 | 50.0 to 200.0 |       2000.0 |"
        " 1000.0 to 4000.0 |",
        "| on, 10% sampled | 98.0        | 49.0 to 180.0 |  100.0 | 60.0 to 100.0 |       2020.0 |"
        " 1000.0 to 4400.0 |",
        "",
        "1 sentence, 64 connections. With traces, the speed is 98.0 % of that without (90.0 to "
        "98.0), and the processor time of a request 101.0 % (100.0 to 110.0).",
    ]


def test_the_collector_counts_what_it_gets() -> None:
    with collector() as sink:
        url = f"http://127.0.0.1:{sink.server_address[1]}/v1/traces"
        for _ in range(2):
            with urllib.request.urlopen(url, data=b"spans") as answer:
                assert (answer.status, answer.read()) == (200, b"")
        assert sink.exports == 2


@needs_wrk
def test_both_services_are_measured_in_turns(
    checkpoint_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(traces, "_WARM_UP_SECONDS", 1)
    # Whatever the environment says, the service without traces has none.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    found = measure(checkpoint_folder, tmp_path, rounds=2, seconds=3, share=1.0)
    assert (len(found.off), len(found.on)) == (2, 2)
    assert all(each.figures.rate > 0 for each in (*found.off, *found.on))
    assert found.exports > 0
    told = capsys.readouterr().err.splitlines()
    assert [line.rpartition(" ")[2] for line in told[2:]] == ["off", "on", "on", "off"]
    logs = [(tmp_path / f"traces-{name}.log").read_text("utf-8") for name in ("off", "on")]
    assert ["trace_id" in log for log in logs] == [False, True]
    assert "disturbed" not in logs[1]


@needs_wrk
def test_a_checkpoint_that_is_missing_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--checkpoint", str(tmp_path / "missing")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith(
        f"benchmarks.traces: traces-off did not start: --checkpoint: {tmp_path / 'missing'}"
    )


def test_an_interrupt_ends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(wrk, "check_installed", interrupt)
    assert main([]) == 130
    assert capsys.readouterr().err == "benchmarks.traces: interrupted\n"


@pytest.mark.parametrize("share", ["-0.1", "1.1", "nan", "some"])
def test_a_share_is_a_number_from_0_to_1(share: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["--share", share])
    assert f"must be a number from 0 to 1, got '{share}'" in capsys.readouterr().err


def test_every_option_is_documented() -> None:
    expected = [
        (action.option_strings[0], str(action.default))
        for action in parser()._actions
        if action.default is not argparse.SUPPRESS
    ]
    page = ROOT / "docs" / "benchmarks.md"
    found = rows(page, "option of `make traces`")
    assert [(code(name), default.strip("`")) for name, default, _ in found] == expected
