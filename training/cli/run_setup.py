"""Prepares what the options of `fit` and `search` name: first weights, device and rows."""

import argparse
from collections.abc import Callable
from pathlib import Path

from model.checkpoint.location import local_folder
from model.files import check_folder
from training.cli.shared_options import columns_of
from training.data.dataset import Dataset
from training.data.hub import local_files
from training.data.validation_split import read_and_split
from training.device import choose_accelerator
from training.distributed import SINGLE_PROCESS, Ranks
from training.fit.recipe import Recipe
from training.run import TrainingContext


def context_of(
    arguments: argparse.Namespace,
    run_dir: Path,
    *,
    stop: Callable[[], int | None] = lambda: None,
    ranks: Ranks = SINGLE_PROCESS,
) -> TrainingContext:
    """Finds the first weights and the device, and sets threads and determinism of torch."""
    init_from = arguments.init_from
    if init_from is not None:
        init_from = local_folder(init_from)
        check_folder(init_from)
    return TrainingContext(
        run_dir=run_dir,
        accelerator=choose_accelerator(
            arguments.device, threads=arguments.threads, dtype=arguments.dtype, ranks=ranks
        ),
        save_every=arguments.save_every,
        stop=stop,
        ranks=ranks,
        init_from=init_from,
        name=arguments.output.resolve().name,
        targets=tuple(arguments.log_to) if ranks.is_first else (),
    )


def read_rows(arguments: argparse.Namespace, recipe: Recipe) -> tuple[Dataset, Dataset, Dataset]:
    """Returns all rows of the files, the training rows and the validation rows."""
    return read_and_split(
        local_files(arguments.files),
        local_files(arguments.validation or ()),
        columns=columns_of(arguments),
        labels=arguments.labels,
        hold_out=recipe.hold_out,
        share=recipe.validation_share,
        seed=recipe.seed,
    )
