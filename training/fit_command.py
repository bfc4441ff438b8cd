"""`headlight-train fit`: from labelled files to a checkpoint, its history and its figures."""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import softmax

from model.checkpoint import check_place, save_checkpoint
from model.device import choose_device, computes_bfloat16
from model.encoder import EncoderClassifier
from model.manifest import Manifest, Metric
from model.threads import choose_threads
from model.tokenizer import Tokenizer
from training.augment import undo_penn_in_some
from training.calibrate import fit_temperature
from training.data import Columns, Dataset, read_dataset, split
from training.errors import RecipeError
from training.fit import Fitting, Rows
from training.history import write_history
from training.inference import predict_logits
from training.metrics import measure
from training.plots import plot_history
from training.recipe import Recipe, load_recipe, presets
from training.setup import Start, start_from_pretrained, start_from_scratch
from training.signals import noted_signals
from training.state import has_state, remove_state

_STORE_DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
_RECIPE_OPTIONS: tuple[tuple[str, type, str], ...] = (
    ("epochs", int, "passes over the training rows"),
    ("batch_size", int, "texts of a step"),
    ("learning_rate", float, "the highest rate, at the end of the warm-up"),
    ("weight_decay", float, "of matrices"),
    ("warmup_share", float, "share of the steps in which the rate climbs"),
    ("max_grad_norm", float, "gradients are scaled down to this norm"),
    ("label_smoothing", float, "share of the target that goes to all classes alike"),
    ("dropout", float, "after embeddings and sublayers"),
    ("max_length", int, "the most tokens of a text"),
    ("validation_share", float, "share of the rows held out, without --validation"),
    ("patience", int, "epochs without a better validation loss until the run stops"),
    ("seed", int, "of everything random"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives a parser the options of the command.

    Args:
        parser: of the subcommand.
    """
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="labelled text to learn from: TSV, CSV, JSON Lines (each also .gz) or Parquet",
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="the checkpoint to write"
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace a checkpoint or an interrupted run that is there already",
    )
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help=f"{', '.join(presets())}, or a TOML file (default: small; finetune with --init-from)",
    )
    parser.add_argument(
        "--init-from", type=Path, metavar="DIR", help="begin with a pretrained BERT-family folder"
    )
    parser.add_argument("--text-column", metavar="NAME", help="the column of texts")
    parser.add_argument("--label-column", metavar="NAME", help="the column of labels")
    parser.add_argument(
        "--labels",
        type=lambda text: tuple(name.strip() for name in text.split(",")),
        metavar="A,B",
        help="names of the classes in the order of their numbers (default: from the files)",
    )
    parser.add_argument(
        "--validation",
        type=Path,
        action="append",
        metavar="FILE",
        help="labelled text to choose the best epoch and the temperature by; may be repeated",
    )
    parser.add_argument(
        "--evaluate",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="labelled text to measure in the end, for the record alone; may be repeated",
    )
    for name, kind, text in _RECIPE_OPTIONS:
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=kind, metavar="N", help=f"{text} (default: the preset's)")
    parser.add_argument(
        "--store-dtype",
        choices=tuple(_STORE_DTYPES),
        default="float32",
        help="what the weights are stored in (default: %(default)s)",
    )
    parser.add_argument(
        "--device", default="auto", help="auto, cpu, cuda or cuda:N (default: %(default)s)"
    )
    parser.add_argument(
        "--dtype",
        choices=("auto", "float32", "bfloat16"),
        default="auto",
        help="of matrix products; auto: bfloat16 where the processor has it (default: auto)",
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="threads (default: the CPU quota, or the cores)"
    )
    parser.add_argument(
        "--run-dir",
        type=Path,
        metavar="DIR",
        help="where history, plot and the state of the run go (default: the output with .run)",
    )
    parser.add_argument(
        "--save-every",
        type=int,
        default=500,
        metavar="STEPS",
        help="steps between two states on disk (default: %(default)s)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with the interrupted run of this output"
    )


def run(arguments: argparse.Namespace) -> int:
    """Trains, calibrates, measures and saves.

    Args:
        arguments: as the parser of `add_arguments` gives them.

    Returns:
        0.

    Raises:
        TrainingError: data, options or an interrupted run cannot be used; or the run was
            interrupted.
        model.errors.ModelError: a folder or the device cannot be used.
    """
    output: Path = arguments.output
    run_dir: Path = arguments.run_dir or output.with_name(f"{output.name}.run")
    _check_output(output, overwrite=arguments.overwrite)
    if not arguments.resume:
        _check_state(run_dir / "state", overwrite=arguments.overwrite)
    _check_positive(arguments)
    recipe = _recipe(arguments)
    device = choose_device(arguments.device)
    _prepare_torch(device, arguments.threads)
    training, validation = _read(arguments, recipe)
    evaluated = {path: _read_one(arguments, path, training.labels) for path in arguments.evaluate}
    start = (
        start_from_pretrained(recipe, arguments.init_from, training.labels)
        if arguments.init_from
        else start_from_scratch(recipe, training.texts, training.labels)
    )
    bfloat16 = arguments.dtype == "bfloat16" or (
        arguments.dtype == "auto" and computes_bfloat16(device)
    )
    fitting = Fitting(
        start.network.to(device),
        start.tokenizer,
        recipe,
        training=_encode(start.tokenizer, training),
        validation=_encode(start.tokenizer, validation),
        device=device,
        bfloat16=bfloat16,
        state=run_dir / "state",
        identity=_identity(recipe, training, validation, start, bfloat16=bfloat16),
    )
    run_dir.mkdir(parents=True, exist_ok=True)
    if arguments.resume:
        fitting.resume()
        _say(f"resuming after step {fitting.step}")
    else:
        remove_state(run_dir / "state")
    with noted_signals() as stop:
        history = fitting.run(
            save_every=arguments.save_every,
            stop=stop,
            record=lambda history: write_history(history, run_dir / "history.jsonl"),
        )
    plot_history(history, run_dir / "history.png")
    temperature = fit_temperature(fitting.validation_logits(), np.array(validation.label_ids))
    dtype = _STORE_DTYPES[arguments.store_dtype]
    _round(start.network, dtype)
    metrics = [
        _metric(name, dataset, start, temperature, device)
        for name, dataset in (
            ("validation", validation),
            *((_set_name(path), dataset) for path, dataset in evaluated.items()),
        )
    ]
    manifest = Manifest(
        labels=training.labels,
        temperature=temperature,
        max_length=start.tokenizer.max_length,
        training_data=training.sources,
        seed=recipe.seed,
        recipe={**recipe.model_dump(mode="json"), **start.origin},
        metrics=tuple(metrics),
    )
    save_checkpoint(
        output,
        network=start.network,
        config=start.config,
        tokenizer=start.tokenizer,
        manifest=manifest,
        dtype=dtype,
    )
    remove_state(run_dir / "state")
    _report(output, history[-1].seconds, temperature, metrics)
    return 0


def _check_output(output: Path, *, overwrite: bool) -> None:
    check_place(output)
    if output.exists() and any(output.iterdir()) and not overwrite:
        raise RecipeError(f"{output} is there already: choose another --output, or --overwrite it")


def _check_state(state: Path, *, overwrite: bool) -> None:
    if has_state(state) and not overwrite:
        raise RecipeError(
            f"{state} holds an interrupted run: go on with it with --resume, or give it up with "
            "--overwrite"
        )


def _check_positive(arguments: argparse.Namespace) -> None:
    for name in ("threads", "save_every"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise RecipeError(f"--{name.replace('_', '-')} must be at least 1, got {value}")


def _recipe(arguments: argparse.Namespace) -> Recipe:
    given = {name: getattr(arguments, name) for name, _, _ in _RECIPE_OPTIONS}
    changes = {name: value for name, value in given.items() if value is not None}
    preset = arguments.preset or ("finetune" if arguments.init_from else "small")
    return load_recipe(preset, changes)


def _prepare_torch(device: torch.device, threads: int | None) -> None:
    torch.set_num_threads(choose_threads(threads or 0))
    # On a GPU the fused attention has no deterministic form.
    torch.use_deterministic_algorithms(device.type == "cpu")


def _read(arguments: argparse.Namespace, recipe: Recipe) -> tuple[Dataset, Dataset]:
    columns = Columns(text=arguments.text_column, label=arguments.label_column)
    training = read_dataset(arguments.files, columns=columns, labels=arguments.labels)
    if arguments.validation:
        validation = read_dataset(arguments.validation, columns=columns, labels=training.labels)
    else:
        training, validation = split(training, share=recipe.validation_share, seed=recipe.seed)
    if not len(training) or not len(validation):
        raise RecipeError(
            f"{len(training)} rows to learn from and {len(validation)} to validate by are too "
            "few: give more rows, or another --validation-share"
        )
    known = set(training.label_ids)
    unseen = [name for number, name in enumerate(training.labels) if number not in known]
    if unseen:
        raise RecipeError(
            f"no training row has the label {', '.join(unseen)}: add rows, or leave it out of "
            "--labels"
        )
    texts = undo_penn_in_some(training.texts, share=recipe.undo_penn_share, seed=recipe.seed)
    return replace(training, texts=texts), validation


def _read_one(arguments: argparse.Namespace, path: Path, labels: Sequence[str]) -> Dataset:
    columns = Columns(text=arguments.text_column, label=arguments.label_column)
    return read_dataset([path], columns=columns, labels=labels)


def _encode(tokenizer: Tokenizer, dataset: Dataset) -> Rows:
    return Rows([tokenizer.encode(text) for text in dataset.texts], dataset.label_ids)


def _identity(
    recipe: Recipe, training: Dataset, validation: Dataset, start: Start, *, bfloat16: bool
) -> dict[str, Any]:
    """What an interrupted run must share with this one to end in the same weights."""
    return {
        **recipe.model_dump(mode="json"),
        **start.origin,
        "bfloat16": bfloat16,
        "threads": torch.get_num_threads(),
        "labels": list(training.labels),
        "training_data": [source.sha256 for source in training.sources],
        "validation_data": [source.sha256 for source in validation.sources],
        # Of the same files other columns may have been read.
        "training_rows": _rows_digest(training),
        "validation_rows": _rows_digest(validation),
    }


def _rows_digest(dataset: Dataset) -> str:
    rows = json.dumps([dataset.texts, dataset.label_ids]).encode()
    return hashlib.sha256(rows).hexdigest()


def _round(network: EncoderClassifier, dtype: torch.dtype) -> None:
    """Gives the weights the values that they will have when they are read back."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(parameter.to(dtype))


def _metric(
    name: str, dataset: Dataset, start: Start, temperature: float, device: torch.device
) -> Metric:
    logits = predict_logits(
        start.network,
        _encode(start.tokenizer, dataset).encodings,
        pad_token_id=start.tokenizer.pad_token_id,
        device=device,
    )
    probabilities = softmax(logits.astype(np.float64) / temperature, axis=1)
    figures = measure(probabilities, np.array(dataset.label_ids))
    return Metric(
        name=name,
        rows=figures.rows,
        accuracy=figures.accuracy,
        interval=figures.interval,
        log_loss=figures.log_loss,
        ece=figures.ece,
    )


def _set_name(path: Path) -> str:
    """`sst/dev` of `data/sst/dev.tsv.gz`: folder and file without suffixes."""
    return f"{path.resolve().parent.name}/{path.name.partition('.')[0]}"


def _report(output: Path, seconds: float, temperature: float, metrics: Sequence[Metric]) -> None:
    _say(f"trained in {seconds:.0f} s, temperature {temperature:.3f}")
    for metric in metrics:
        low, high = metric.interval
        _say(
            f"{metric.name}: accuracy {metric.accuracy:.2%} (95 % interval {low:.2%} to "
            f"{high:.2%}, {metric.rows:,} rows), log-loss {metric.log_loss:.4f}, "
            f"ECE {metric.ece:.4f}"
        )
    _say(f"checkpoint: {output}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
