"""Reads the sources of a plan, and holds rows out."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from model.checkpoint.records import DataSource
from model.files import digest
from model.tables.rows import read_texts
from training.data.dataset import Dataset, read_dataset
from training.data.validation_split import choose_held_out, rows_without_overlap, text_key
from training.plan.plan import Plan, SourceFile
from training.plan.pool import Pool


@dataclass(frozen=True, slots=True)
class PlanData:
    """The data of a plan; the sources of `training` are all files in use."""

    pool: Pool
    held_out: Dataset
    training: Dataset


def read_plan_data(plan: Plan, folder: Path) -> PlanData:
    """Reads every source, holds rows out, and drops the rows that overlap with them."""
    labelled = {
        name: _read_source(source, folder, plan)
        for name, source in plan.sources.items()
        if source.labelled
    }
    measured = _measured(plan, folder)
    labelled = {
        name: dataset.take(_unmeasured(dataset.texts, measured))
        for name, dataset in labelled.items()
    }
    counts = {name: plan.sources[name].hold_out for name in labelled}
    texts = {name: dataset.texts for name, dataset in labelled.items()}
    chosen = choose_held_out(texts, counts, seed=plan.seed)
    held_out = _join(plan, [labelled[name].take(indices) for name, indices in chosen.items()])
    pool_texts: dict[str, Sequence[str]] = {}
    pool_labels: dict[str, Sequence[int]] = {}
    used = plan.used_sources
    kept = []
    for name, dataset in labelled.items():
        rows = dataset.take(rows_without_overlap(dataset.texts, held_out.texts))
        pool_texts[name], pool_labels[name] = rows.texts, rows.label_ids
        if name in used:
            kept.append(rows)
    training = _join(plan, kept)
    for name in used:
        source = plan.sources[name]
        if source.labelled:
            continue
        bare = read_texts(folder / source.file)
        rest = [bare[index] for index in _unmeasured(bare, measured)]
        pool_texts[name] = [rest[index] for index in rows_without_overlap(rest, held_out.texts)]
        record = DataSource(file=source.file, rows=len(bare), sha256=digest(folder / source.file))
        training = replace(training, sources=(*training.sources, record))
    known = {
        name: tuple(sorted(plan.labels.index(label) for label in source.labels))
        for name, source in plan.sources.items()
        if source.labels
    }
    return PlanData(
        Pool(pool_texts, pool_labels, num_labels=len(plan.labels), known=known), held_out, training
    )


def _measured(plan: Plan, folder: Path) -> Set[str]:
    """Returns the letters and digits of each text that the result is measured on."""
    return {
        text_key(text) for file in plan.keep_out for text in read_dataset([folder / file]).texts
    }


def _unmeasured(texts: Sequence[str], measured: Set[str]) -> list[int]:
    return [index for index, text in enumerate(texts) if text_key(text) not in measured]


def _read_source(source: SourceFile, folder: Path, plan: Plan) -> Dataset:
    """Reads a file, names it by its path in the plan, and numbers its classes as the plan does."""
    own = source.labels or plan.labels
    dataset = read_dataset([folder / source.file], labels=own)
    named = tuple(each.model_copy(update={"file": source.file}) for each in dataset.sources)
    numbers = [plan.labels.index(label) for label in own]
    label_ids = tuple(numbers[number] for number in dataset.label_ids)
    return replace(dataset, label_ids=label_ids, labels=plan.labels, sources=named)


def _join(plan: Plan, parts: Sequence[Dataset]) -> Dataset:
    return Dataset(
        texts=tuple(text for part in parts for text in part.texts),
        label_ids=tuple(number for part in parts for number in part.label_ids),
        labels=plan.labels,
        sources=tuple(source for part in parts for source in part.sources),
    )
