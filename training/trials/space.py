"""Chooses the values that a search tries: all combinations, or some by chance."""

from collections.abc import Iterable, Mapping, Sequence

from sklearn.model_selection import ParameterGrid, ParameterSampler

from training.errors import RecipeError
from training.fit.recipe import Recipe

_RATES = (0.3, 1.0, 3.0)
_EPOCHS = (1, 2)

Values = Mapping[str, float]


def default_values(recipe: Recipe) -> dict[str, tuple[float, ...]]:
    """Returns what is tried if nobody says so: rates and epochs around those of the recipe."""
    return {
        "learning_rate": tuple(float(f"{recipe.learning_rate * factor:.2g}") for factor in _RATES),
        "epochs": tuple(recipe.epochs * factor for factor in _EPOCHS),
    }


def choose_values(
    tried: Mapping[str, Sequence[float]], *, trials: int | None, seed: int
) -> list[Values]:
    """Combines values.

    Args:
        tried: two values or more of each field of the recipe that varies.
        trials: how many combinations to draw, none of them twice; None: all of them, in an order
            that follows from the fields and their values.
        seed: of the draw.

    Raises:
        RecipeError: there are fewer combinations than trials, or nothing varies.
    """
    if not tried:
        raise RecipeError(
            "there is one combination of values alone: give an option several values, such as "
            "--learning-rate 2e-5,5e-5, or use fit"
        )
    grid = ParameterGrid({name: list(values) for name, values in tried.items()})
    if trials is None:
        return _in_order(grid, tried)
    if trials > len(grid):
        raise RecipeError(
            f"--trials {trials} is more than the {len(grid)} combinations of the values: leave it "
            "out to try all of them, or give more values"
        )
    drawn = ParameterSampler(
        {name: list(values) for name, values in tried.items()}, trials, random_state=seed
    )
    return _in_order(drawn, tried)


def _in_order(drawn: Iterable[Values], tried: Mapping[str, Sequence[float]]) -> list[Values]:
    """Puts the fields of each combination in the order in which they were given."""
    return [{name: values[name] for name in tried} for values in drawn]


def told_name(field: str) -> str:
    """Returns the name of a field as people read it."""
    return field.replace("_", " ")
