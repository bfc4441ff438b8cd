"""The measurement of own classes, on made-up rows and a tiny network."""

import gzip
import json
from pathlib import Path

import pytest

from recipes.own_classes import draw, main, read
from tests.builders import tiny_checkpoint


def test_a_table_gains_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = {"negative": "dull", "neutral": "plain", "positive": "lovely"}
    lines = [f"verse {n} is {words[label]}\t{label}" for n in range(40) for label in words]
    path = tmp_path / "three" / "poems_train.tsv.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress("\n".join(["sentence\tlabel", *lines]).encode()))
    results = tmp_path / "results.jsonl"
    options = ["--data", str(tmp_path), "--results", str(results), "--tasks", "verses"]
    options += ["--init-from", str(tiny_checkpoint(tmp_path / "tiny")), "--seeds", "1", "--rows"]

    assert main([*options, "30"]) == 0
    (first,) = results.read_text(encoding="utf-8").splitlines()
    fit = json.loads(first)
    assert (fit["task"], fit["rows"], fit["seed"], fit["tfidf"]) == ("verses", 30, 0, 100.0)
    capsys.readouterr()
    assert main([*options, "30", "45"]) == 0

    again, second = results.read_text(encoding="utf-8").splitlines()
    assert (again, json.loads(second)["rows"]) == (first, 45)
    *_, line = capsys.readouterr().out.splitlines()
    assert line.startswith("| 45 | verses | 100.0 | ")
    known, unseen = read(tmp_path, "verses")
    assert (len(known), len(unseen)) == (60, 30)
    assert not {text for text, _ in known} & {text for text, _ in unseen}


def test_every_class_is_drawn_twice() -> None:
    rows = [(f"text {number}", "rare" if number > 97 else "frequent") for number in range(100)]
    drawn = draw(rows, 10, seed=0)
    assert [label for _, label in drawn].count("rare") == 2
    assert len(set(drawn)) == 10
    assert drawn == draw(rows, 10, seed=0) != draw(rows, 10, seed=1)
