"""Progress on standard error: by tqdm, else by lines; none unless it is asked for."""

import sys

import pytest

from headlight_client.portions import Progress
from tests.client.conftest import Ask
from tests.end_to_end.servers import RunningService

KEY = {"api_key": "the-key"}


def shown(total: int, *steps: int) -> None:
    with Progress(total, shown=True) as progress:
        for done in steps:
            progress.update(done)


def test_tqdm_counts_to_the_end(
    ask: Ask, running: RunningService, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(running.url, "predict", ["good"] * 12, options=KEY)
    assert capsys.readouterr() == ("", "")
    ask(running.url, "predict", ["good"] * 12, progress=True, options=KEY)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "12/12" in printed.err
    assert "good" not in printed.err


def test_of_many_parts_ten_lines_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    shown(0, 0)
    shown(1000, *range(5, 1001, 5))
    assert capsys.readouterr().err.splitlines() == [
        f"headlight: {done} of 1000 sentences" for done in range(100, 1001, 100)
    ]
