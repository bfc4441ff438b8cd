"""The combinations of a search: all of them, or some by chance, and none twice."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.errors import RecipeError
from training.fit.recipe import load_recipe
from training.trials.space import choose_values, default_values

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


def test_more_trials_than_combinations_are_refused() -> None:
    with pytest.raises(RecipeError, match="--trials 5 is more than the 4 combinations"):
        choose_values({"epochs": [1, 2], "dropout": [0.1, 0.2]}, trials=5, seed=0)


@pytest.mark.parametrize(
    ("preset", "rates", "epochs"),
    [("finetune", (1.5e-5, 5e-5, 1.5e-4), (3, 6)), ("small", (3e-4, 1e-3, 3e-3), (4, 8))],
)
def test_defaults_lie_around_the_preset(
    preset: str, rates: tuple[float, ...], epochs: tuple[int, ...]
) -> None:
    assert default_values(load_recipe(preset, {})) == {"learning_rate": rates, "epochs": epochs}
