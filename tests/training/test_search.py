"""The combinations of a search, and the table that ranks them."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

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

    drawn = [choose_values(tried, trials=3, seed=seed) for seed in range(4)]

    assert len({tuple(values["learning_rate"] for values in each) for each in drawn}) == 4


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
    tried = {"learning_rate": (1e-5, 1e-4, 1e-3), "epochs": (3, 6)}

    optimistic, edge = warnings_of(TRIALS, TRIALS[2], tried)

    assert optimistic.startswith("the best of 3 trials is chosen by the rows that measure it")
    assert edge == "epochs: the best value, 6, is the highest that was tried: try higher ones too"
    assert len(warnings_of(TRIALS, TRIALS[0], tried)) == 3
