"""`search`: the combinations, trials that are ranked and kept, and the command for the best."""

import contextlib
import io
import shlex
import signal
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.tiny_runs import (
    Refusal,
    read_history,
    read_lines,
    signal_after,
    write_preset,
    write_sentences,
)
from training.__main__ import main
from training.fit.recipe import load_recipe
from training.search import (
    TrialResult,
    choose_values,
    default_values,
    results_table,
    trial_line,
    warnings_of,
)

FIELDS = st.sampled_from(["learning_rate", "epochs", "batch_size", "dropout"])
TRIED = st.dictionaries(
    FIELDS, st.lists(st.integers(1, 9), min_size=2, max_size=4, unique=True), min_size=1
)


@given(tried=TRIED, seed=st.integers(0, 9), data=st.data())
def test_each_combination_comes_once(
    tried: dict[str, list[int]], seed: int, data: st.DataObject
) -> None:
    count = prod(len(values) for values in tried.values())
    trials = data.draw(st.none() | st.integers(1, count))

    chosen = choose_values(tried, trials=trials, seed=seed)

    assert len(chosen) == (count if trials is None else trials)
    assert len({tuple(values.items()) for values in chosen}) == len(chosen)
    assert all(list(values) == list(tried) for values in chosen)
    assert all(values[name] in tried[name] for values in chosen for name in tried)
    assert chosen == choose_values(tried, trials=trials, seed=seed)


def test_the_seed_draws() -> None:
    tried = {"learning_rate": list(range(1, 40))}

    assert choose_values(tried, trials=3, seed=0) != choose_values(tried, trials=3, seed=1)


@pytest.mark.parametrize(
    ("preset", "rates", "epochs"),
    [("finetune", (1.5e-5, 5e-5, 1.5e-4), (3, 6)), ("small", (3e-4, 1e-3, 3e-3), (4, 8))],
)
def test_defaults_lie_around_the_preset(
    preset: str, rates: tuple[float, ...], epochs: tuple[int, ...]
) -> None:
    assert default_values(load_recipe(preset, {})) == {"learning_rate": rates, "epochs": epochs}


TRIALS = (
    TrialResult(1, {"learning_rate": 1e-5, "epochs": 3}, 0.75, None, 0.5, 0.25, 3, 61.6),
    TrialResult(2, {"learning_rate": 1e-3, "epochs": 3}),
    TrialResult(3, {"learning_rate": 1e-4, "epochs": 6}, 0.5, None, 0.625, 0.5, 4, 7.0),
)


def test_the_least_loss_is_first_and_a_diverged_run_is_last() -> None:
    assert results_table(TRIALS).splitlines() == [
        "trial  learning rate  epochs  validation loss  accuracy  macro F1  epoch  seconds",
        "    3         0.0001       6           0.5000    62.50%    0.5000      4        7",
        "    1          1e-05       3           0.7500    50.00%    0.2500      3       62",
        "    2          0.001       3         diverged         -         -      -        0",
    ]


def test_folds_have_a_deviation() -> None:
    folded = TrialResult(1, {"epochs": 2}, 0.5, 0.0625, 0.75, 0.5, None, 9.0)

    assert trial_line(folded) == (
        "epochs 2: log-loss of the folds 0.5000 ± 0.0625, accuracy 75.00%, macro F1 0.5000"
    )
    assert results_table([folded]).splitlines() == [
        "trial  epochs  log-loss of the folds  accuracy  macro F1  epoch  seconds",
        "    1       2        0.5000 ± 0.0625    75.00%    0.5000      -        9",
    ]


def test_the_best_may_lie_at_an_edge() -> None:
    optimistic, edge = warnings_of(TRIALS, TRIALS[2])

    assert optimistic.startswith("the best of 3 trials is chosen by the rows that measure it")
    assert edge == "epochs: the best value, 6, is the highest that was tried: try higher ones too"
    assert len(warnings_of(TRIALS, TRIALS[0])) == 3


def test_a_range_of_one_value_has_no_edge() -> None:
    """As `--trials` may draw it."""
    _, edge = warnings_of(TRIALS[:2], TRIALS[0])

    assert (
        edge == "learning rate: the best value, 1e-05, is the lowest that was tried: try lower "
        "ones too"
    )
    assert len(warnings_of(TRIALS[:1], TRIALS[0])) == 1


THREE = ("negative", "neutral", "positive")


def command(folder: Path, output: str, *options: str) -> list[str]:
    if not (folder / "rows.tsv").exists():
        write_sentences(folder / "rows.tsv", rows=120, labels=THREE)
        write_preset(folder / "tiny.toml")
    return [
        *("search", str(folder / "rows.tsv"), "--output", str(folder / output)),
        *("--preset", str(folder / "tiny.toml"), "--threads", "1", *options),
    ]


VALUES = ("--learning-rate", "0.005,0.02", "--epochs", "1,2", "--trials", "3", "--seed", "3")


def results(folder: Path, output: str) -> list[dict[str, Any]]:
    return read_lines(folder / output / "search.jsonl")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a search that never stopped; its output is `found`."""
    folder = tmp_path_factory.mktemp("whole")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(command(folder, "found", *VALUES)) == 0
    (folder / "printed.txt").write_text(printed.getvalue(), encoding="utf-8")
    return folder


def test_every_trial_is_ranked(whole: Path) -> None:
    found = results(whole, "found")
    assert len({tuple(trial["values"].items()) for trial in found}) == 3
    assert [trial["trial"] for trial in found] == [1, 2, 3]
    lines = (whole / "printed.txt").read_text(encoding="utf-8").splitlines()
    ranks = sorted(found, key=lambda trial: float(trial["loss"]))
    table = lines.index(
        next(line for line in lines if line.split()[:1] == ["trial"] and "seconds" in line)
    )
    assert [int(line.split()[0]) for line in lines[table + 1 : table + 4]] == [
        trial["trial"] for trial in ranks
    ]
    best = ranks[0]
    values = best["values"]
    assert (
        f"best: trial {best['trial']}, learning rate {values['learning_rate']:g}, "
        f"epochs {values['epochs']}: validation loss {best['loss']:.4f}, accuracy "
        f"{best['accuracy']:.2%}, macro F1 {best['macro_f1']:.4f}"
    ) in lines
    assert (
        "warning: the best of 3 trials is chosen by the rows that measure it, so its figures are "
        "optimistic: measure it on rows that chose nothing, with --evaluate FILE"
    ) in lines
    assert sorted(path.name for path in (whole / "found").iterdir()) == [
        "search.journal",
        "search.jsonl",
    ]


def test_the_command_for_the_best_trains_what_was_measured(whole: Path) -> None:
    *_, head, line = (whole / "printed.txt").read_text(encoding="utf-8").splitlines()
    assert head == "To train it, type:"
    program, *words = shlex.split(line)
    assert program == "headlight-train"
    best = min(results(whole, "found"), key=lambda trial: float(trial["loss"]))
    output = whole / "found" / "best"
    assert words == [
        *("fit", str(whole / "rows.tsv"), "--preset", str(whole / "tiny.toml")),
        *("--threads", "1", "--seed", "3"),
        *("--learning-rate", str(best["values"]["learning_rate"])),
        *("--epochs", str(best["values"]["epochs"]), "--output", str(output)),
    ]

    moved = [*words[:-1], str(whole / "best")]
    assert main(moved) == 0

    history = read_history(whole / "best.run")
    assert min(measured.validation_loss for measured in history) == best["loss"]


def test_an_interrupted_search_over_folds_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--learning-rate", "0.005,0.02", "--epochs", "1", "--folds", "2")
    typed = command(tmp_path, "found", *options)
    assert main(command(tmp_path, "whole", *options)) == 0
    capsys.readouterr()
    # An epoch has 4 steps in each of the two folds.
    with monkeypatch.context() as patched:
        signal_after(patched, 10, signal.SIGINT)
        assert main(typed) == 130
    assert capsys.readouterr().err.splitlines()[-1] == (
        "headlight-train: interrupted after trial 1 of 2; the state is saved: run the same command "
        "with --resume to go on"
    )
    first = results(tmp_path, "found")

    assert main(typed) == 1
    assert capsys.readouterr().err == (
        f"headlight-train: {tmp_path / 'found'} holds a search: resume it with --resume, or "
        "replace it with --overwrite\n"
    )
    assert main([*typed, "--resume"]) == 0
    found = results(tmp_path, "found")
    assert found[:1] == first
    assert found == results(tmp_path, "whole")

    # The mean of the folds ranks, and its figures are those of `fit`.
    best = min(found, key=lambda trial: float(trial["loss"]))
    rate = best["values"]["learning_rate"]
    assert (
        f"best: trial {best['trial']}, learning rate {rate:g}: log-loss of the folds "
        f"{best['loss']:.4f} ± {best['deviation']:.4f}, accuracy {best['accuracy']:.2%}, macro F1 "
        f"{best['macro_f1']:.4f}"
    ) in capsys.readouterr().out.splitlines()
    fit = command(tmp_path, "out", *options[2:], "--learning-rate", str(rate))
    assert main(["fit", *fit[1:]]) == 0
    assert f"2 folds: accuracy {best['accuracy']:.2%} ± " in capsys.readouterr().out


def test_trials_that_diverge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], refusal: Refusal
) -> None:
    options = ("--epochs", "1", "--overwrite")
    assert main(command(tmp_path, "found", "--learning-rate", "1e30,0.005", *options)) == 0

    diverged, sound = results(tmp_path, "found")
    assert diverged["loss"] is None
    assert sound["loss"] is not None
    said = capsys.readouterr().out
    assert "trial 1 of 2: learning rate 1e+30: the run diverged\n" in said
    assert "best: trial 2, " in said

    assert refusal(command(tmp_path, "found", "--learning-rate", "1e30,1e31", *options)) == (
        "every trial has diverged: try a lower --learning-rate"
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--learning-rate", "0.01", "--epochs", "1"), "there is only one combination of values: "),
        (("--trials", "9"), "--trials 9 is more than the 6 combinations of the values: "),
        (("--folds", "1"), "--folds must be at least 2, got 1"),
        (("--dropout", "0.1,1.5"), " --dropout: --dropout: must be less than 1 (got 1.5)"),
        (("--resume",), "found: there is no search to resume; leave out --resume"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, refusal: Refusal, options: tuple[str, ...], told: str
) -> None:
    assert told in refusal(command(tmp_path, "found", *options))
    assert not (tmp_path / "found").exists()


def test_another_folder_is_not_touched(tmp_path: Path, refusal: Refusal) -> None:
    (tmp_path / "found").mkdir()
    (tmp_path / "found" / "notes.txt").write_text("mine")

    assert refusal(command(tmp_path, "found", "--overwrite")) == (
        f"{tmp_path / 'found'} holds something other than a search: choose another --output"
    )
    assert (tmp_path / "found" / "notes.txt").read_text() == "mine"


def test_another_search_is_not_gone_on_with(whole: Path, refusal: Refusal) -> None:
    options = ["0.005,0.03" if option == "0.005,0.02" else option for option in VALUES]

    assert refusal(command(whole, "found", *options, "--resume")).startswith(
        f"{whole / 'found' / 'search.journal'}: the interrupted run was another one: values: "
    )
