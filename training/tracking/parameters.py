"""Collects what a tracker is told of a run before it begins: its recipe and its rows."""

from collections.abc import Mapping

from training.data.dataset import Dataset
from training.fit.recipe import Recipe
from training.tracking.run_log import Parameter


def parameters_of(
    recipe: Recipe, origin: Mapping[str, str], training: Dataset, validation: Dataset
) -> dict[str, Parameter]:
    """Names every value of a run that may differ from another run's. No text is among them.

    Args:
        recipe: of the run.
        origin: name and digest of the pretrained weights, if any.
        training: rows to learn from.
        validation: rows to validate on.
    """
    found: dict[str, Parameter] = {}
    for name, value in recipe.model_dump(mode="json", exclude_none=True).items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{part}": size for part, size in value.items()}
        else:
            found[name] = value if isinstance(value, Parameter) else str(value)
    return {
        **found,
        **origin,
        "training_rows": len(training),
        "validation_rows": len(validation),
        "classes": len(training.labels),
    }
