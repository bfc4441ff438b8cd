"""Runs `headlight-train fit` on labelled files: trains a checkpoint and records its history."""

import argparse
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from model.hub_checkpoint import local_folder
from model.manifest import Manifest
from training.cli import plan
from training.cli.fit_options import STORE_DTYPES, place_run, recipe_of
from training.cli.shared_options import columns_of
from training.data.dataset import Dataset
from training.data.hub import local_files
from training.data.splits import read_and_split, read_evaluated
from training.errors import DivergedRunError, RecipeError, ResumeError
from training.fit.export import write_checkpoint
from training.fit.initial import InitialModel, init_from_pretrained, init_from_scratch
from training.fit.recipe import Recipe
from training.fit.rows import encode_rows
from training.fit.state import has_state, remove_state
from training.fit.trainer import Trainer
from training.machine import Accelerator, choose_accelerator
from training.measure.history import Measurement, write_history
from training.measure.plots import plot_history
from training.progress import say
from training.signals import noted_signals, raised_signals
from training.synth.augment import undo_penn_in_share

_HISTORY, _PLOT, _STATE = "history.jsonl", "history.png", "state"


def run(arguments: argparse.Namespace) -> int:
    """Trains, calibrates, measures and saves a checkpoint.

    Raises:
        TrainingError: data, options or an interrupted run cannot be used; or the run was
            interrupted.
        model.errors.ModelError: a folder or the device cannot be used.
    """
    if arguments.plan is not None:
        return plan.run(arguments)
    if not arguments.files:
        raise RecipeError("name at least one FILE to learn from, or a --plan")
    unused = [f"--{name}" for name in ("data", "teacher") if getattr(arguments, name) is not None]
    if unused:
        raise RecipeError(f"{unused[0]} is for a --plan: leave it out, or give one")
    run_dir = place_run(arguments)
    _check_state(arguments, run_dir / _STATE)
    recipe = recipe_of(arguments)
    _fetch(arguments)
    accelerator = choose_accelerator(
        arguments.device, threads=arguments.threads, dtype=arguments.dtype
    )
    training, validation = _read(arguments, recipe)
    evaluated = read_evaluated(
        arguments.evaluate, columns=columns_of(arguments), labels=training.labels
    )
    start = (
        init_from_pretrained(recipe, arguments.init_from, training.labels)
        if arguments.init_from
        else init_from_scratch(recipe, training.texts, training.labels)
    )
    trainer = Trainer(
        start.network.to(accelerator.device),
        start.tokenizer,
        recipe,
        training=encode_rows(start.tokenizer, training),
        validation=encode_rows(start.tokenizer, validation),
        accelerator=accelerator,
        state_dir=run_dir / _STATE,
        identity=_identity(recipe, training, validation, start, accelerator),
    )
    history = _fit(trainer, run_dir, save_every=arguments.save_every, resume=arguments.resume)
    with raised_signals(trainer.interrupted):
        plot_history(history, run_dir / _PLOT)
        manifest = write_checkpoint(
            arguments.output,
            start,
            seed=recipe.seed,
            record=recipe.model_dump(mode="json"),
            training=training,
            validation=validation,
            evaluated=evaluated,
            device=accelerator.device,
            dtype=STORE_DTYPES[arguments.store_dtype],
        )
        remove_state(run_dir / _STATE)
    _report(arguments.output, history[-1].seconds, manifest)
    return 0


def _check_state(arguments: argparse.Namespace, state: Path) -> None:
    """Refuses to discard an interrupted run without `--overwrite`, before any work is done."""
    if arguments.resume and not has_state(state):
        raise ResumeError(f"{state}: there is no interrupted run to go on with; leave out --resume")
    if has_state(state) and not (arguments.resume or arguments.overwrite):
        raise RecipeError(
            f"{state} holds an interrupted run: go on with it with --resume, or give it up with "
            "--overwrite"
        )


def _fetch(arguments: argparse.Namespace) -> None:
    """Replaces names of the hub by the files and the folder that they stand for."""
    arguments.files = local_files(arguments.files)
    arguments.validation = local_files(arguments.validation or ())
    arguments.evaluate = local_files(arguments.evaluate)
    if arguments.init_from is not None:
        arguments.init_from = local_folder(arguments.init_from)


def _read(arguments: argparse.Namespace, recipe: Recipe) -> tuple[Dataset, Dataset]:
    """Reads training rows, rewrites some of the Penn style, and reads validation rows."""
    training, validation = read_and_split(
        arguments.files,
        arguments.validation,
        columns=columns_of(arguments),
        labels=arguments.labels,
        hold_out=recipe.hold_out,
        share=recipe.validation_share,
        seed=recipe.seed,
    )
    texts = undo_penn_in_share(training.texts, share=recipe.undo_penn_share, seed=recipe.seed)
    return replace(training, texts=texts), validation


def _identity(
    recipe: Recipe,
    training: Dataset,
    validation: Dataset,
    start: InitialModel,
    accelerator: Accelerator,
) -> dict[str, Any]:
    """Collects what a resumed run must share with this one to end in the same weights."""
    return {
        **recipe.model_dump(mode="json"),
        **start.origin,
        "device": accelerator.device.type,
        "bfloat16": accelerator.bfloat16,
        "threads": torch.get_num_threads(),
        "labels": list(training.labels),
        "training_data": [source.sha256 for source in training.sources],
        "validation_data": [source.sha256 for source in validation.sources],
        # The same files may have been read by other columns.
        "training_rows": _rows_digest(training),
        "validation_rows": _rows_digest(validation),
    }


def _rows_digest(dataset: Dataset) -> str:
    rows = json.dumps([dataset.texts, dataset.label_ids]).encode()
    return hashlib.sha256(rows).hexdigest()


def _fit(trainer: Trainer, run_dir: Path, *, save_every: int, resume: bool) -> list[Measurement]:
    """Trains from the start, or from where the run was interrupted."""
    run_dir.mkdir(parents=True, exist_ok=True)
    if resume:
        trainer.resume()
        say(f"resuming after step {trainer.step}")
    else:
        remove_state(run_dir / _STATE)
        for left in (_HISTORY, _PLOT):
            (run_dir / left).unlink(missing_ok=True)
    try:
        with noted_signals() as stop:
            return trainer.run(
                save_every=save_every,
                stop=stop,
                record=lambda history: write_history(history, run_dir / _HISTORY),
            )
    except DivergedRunError:
        # A resumed run would diverge again.
        remove_state(run_dir / _STATE)
        raise


def _report(output: Path, seconds: float, manifest: Manifest) -> None:
    say(f"trained in {seconds:.0f} s, temperature {manifest.temperature:.3f}")
    for metric in manifest.metrics:
        low, high = metric.interval
        say(
            f"{metric.name}: accuracy {metric.accuracy:.2%} (95 % interval {low:.2%} to "
            f"{high:.2%}, {metric.rows:,} rows), log-loss {metric.log_loss:.4f}, "
            f"ECE {metric.ece:.4f}"
        )
    say(f"checkpoint: {output}")
