"""Where a run of `headlight-train fit` writes."""

import argparse
from pathlib import Path

from model.checkpoint import check_place
from training.errors import RecipeError


def place_run(arguments: argparse.Namespace) -> Path:
    """Refuses, before any work, to replace a checkpoint unasked.

    Args:
        arguments: as the parser of `fit_options.add_arguments` gives them.

    Returns:
        The folder of the run: history, plot and state.

    Raises:
        RecipeError: something is there already, or the folder of the run lies in the checkpoint.
        model.errors.CheckpointError: something else than a checkpoint is there.
    """
    output: Path = arguments.output
    check_place(output)
    if output.exists() and any(output.iterdir()) and not arguments.overwrite:
        raise RecipeError(f"{output} is there already: choose another --output, or --overwrite it")
    place = output.resolve()
    run_dir: Path = arguments.run_dir or place.with_name(f"{place.name}.run")
    if place in (run_dir.resolve(), *run_dir.resolve().parents):
        raise RecipeError(
            f"--run-dir {run_dir} lies in the checkpoint {output}, which is written as a whole: "
            "choose a folder elsewhere"
        )
    return run_dir
