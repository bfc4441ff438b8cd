"""Runs `headlight-train fit --plan`: trains a checkpoint in several stages."""

import argparse
import importlib
import math
from dataclasses import replace
from pathlib import Path

from model.checkpoint.opening import open_checkpoint
from model.cli.progress import say
from model.files import CONFIG, WEIGHTS, digest, read_object
from training.cli.fit_options import STORE_DTYPES, choose_run_dir, reject_plan_options
from training.cli.run_lock import locked
from training.cli.run_setup import context_of
from training.cli.shared_options import columns_of
from training.data.validation_split import read_evaluated
from training.distributed import Ranks, current
from training.errors import InterruptedRunError, RecipeError
from training.fit.export import write_checkpoint
from training.fit.initial import init_from_pretrained
from training.measure.summary import figure_lines
from training.plan.data import read_plan_data
from training.plan.mpnet import FIRST_POSITION
from training.plan.plan import Plan, Pretrained, load_plan
from training.plan.stages import PlanRun, plan_tokenizer
from training.signals import noted_signals, raised_signals


def run(arguments: argparse.Namespace) -> int:
    """Runs a plan, then calibrates, measures and saves the checkpoint."""
    plan = load_plan(arguments.plan)
    reject_plan_options(arguments)
    _check_folders(arguments, plan)
    run_dir = choose_run_dir(arguments)
    ranks = current()
    with locked(run_dir, arguments.output, ranks=ranks):
        return _run(arguments, plan, run_dir, ranks)


def _run(arguments: argparse.Namespace, plan: Plan, run_dir: Path, ranks: Ranks) -> int:
    context = context_of(arguments, run_dir, ranks=ranks)
    data = read_plan_data(plan, arguments.data)
    say(
        f"{len(data.training):,} rows to learn from, {len(data.held_out):,} held out "
        "with all that is part of them"
    )
    evaluated = read_evaluated(
        arguments.evaluate, columns=columns_of(arguments), labels=plan.labels
    )
    recipe = plan.stages[0].recipe.model_copy(update={"max_length": plan.max_length})
    start = replace(
        init_from_pretrained(recipe, arguments.init_from, plan.labels),
        tokenizer=plan_tokenizer(plan, arguments.init_from, max_length=plan.max_length),
        origin={"init_from": plan.pretrained.name, "init_from_sha256": plan.pretrained.sha256},
    )
    network = start.network.to(context.accelerator.device)
    if ranks.is_first:
        run_dir.mkdir(parents=True, exist_ok=True)
    ranks.wait()
    with noted_signals() as stop:
        PlanRun(
            plan,
            data.pool,
            (data.held_out.texts, data.held_out.label_ids),
            student=arguments.init_from,
            teacher=arguments.teacher,
            expert=arguments.expert,
            context=replace(context, stop=ranks.agree(stop)),
        ).run(network)
    if not ranks.is_first:
        return 0
    count = len(plan.stages)
    with raised_signals(lambda signal: InterruptedRunError(signal, count, count, of="stage")):
        exported = write_checkpoint(
            arguments.output,
            start,
            seed=plan.seed,
            language=plan.language,
            record={"plan": plan.model_dump(mode="json", exclude_defaults=True)},
            training=data.training,
            validation=data.held_out,
            evaluated=evaluated,
            device=context.accelerator.device,
            dtype=STORE_DTYPES[arguments.store_dtype],
        )
    say(f"temperature {exported.manifest.temperature:.3f}")
    for name, figures in exported.figures.items():
        for line in figure_lines(name, figures, plan.labels):
            say(line)
    say(f"checkpoint: {arguments.output}")
    return 0


def _check_folders(arguments: argparse.Namespace, plan: Plan) -> None:
    """Refuses missing folders, other networks than the plan names, and texts too long for them."""
    needed = {"--data": arguments.data, "--init-from": arguments.init_from}
    if plan.teacher is not None:
        needed["--teacher"] = arguments.teacher
    if plan.expert is not None:
        needed["--expert"] = arguments.expert
    missing = [option for option, value in needed.items() if value is None]
    if missing:
        raise RecipeError(f"--plan needs {' and '.join(missing)} too")
    _check_pretrained(arguments.init_from, plan.pretrained, "--init-from")
    longest = max(plan.max_length, *(stage.recipe.max_length for stage in plan.stages))
    _check_length(arguments.init_from, longest, first=0)
    if plan.teacher is not None:
        _check_pretrained(arguments.teacher, plan.teacher.pretrained, "--teacher")
        _check_length(arguments.teacher, plan.teacher.recipe.max_length, first=FIRST_POSITION)
        importlib.import_module("transformers")  # fails now, not after hours of work
    if plan.expert is not None:
        _check_pretrained(arguments.expert, plan.expert, "--expert")
        strange = set(open_checkpoint(arguments.expert, trial=True).config.labels) - set(
            plan.labels
        )
        if strange:
            raise RecipeError(
                f"--expert: {arguments.expert} has the label {min(strange)}, the plan has "
                f"{', '.join(plan.labels)}: choose an expert of some of them"
            )


def _check_pretrained(folder: Path, pretrained: Pretrained, option: str) -> None:
    actual = digest(folder / WEIGHTS)
    if actual != pretrained.sha256:
        raise RecipeError(
            f"{option}: {folder / WEIGHTS} has the SHA-256 {actual[:12]}…, the plan was made with "
            f"{pretrained.name}, {pretrained.sha256[:12]}…"
        )


def _check_length(folder: Path, max_length: int, *, first: int) -> None:
    """Without the number in `config.json`, the network has its own check or a default."""
    positions = read_object(folder / CONFIG).get("max_position_embeddings", math.inf)
    if max_length > positions - first:
        raise RecipeError(
            f"the plan has texts of {max_length} tokens, but {folder / CONFIG} has positions for "
            f"{positions - first}: lower max_length"
        )
