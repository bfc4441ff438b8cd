"""Runs a job from its options to its totals: plans or goes on, describes what is left."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from model.checkpoint.location import local_folder
from model.checkpoint.opening import open_checkpoint
from model.tables.columns import find
from model.types import Reading
from scoring.errors import OutputError
from scoring.inputs import InputFile, check_output, find_inputs
from scoring.output.folder import Output, to_json
from scoring.output.manifest import (
    Granularity,
    Manifest,
    Model,
    OutputFormat,
    Source,
    Success,
)
from scoring.parts import Job
from scoring.plan import digest, make_manifest
from scoring.scorer import describe

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line; `shard` is its number from 1, and the shard count."""

    inputs: Sequence[str]
    output: str
    checkpoint: Path
    text_column: str | None
    columns: tuple[str, ...] | None
    delimiter: str | None
    encoding: str | None
    no_header: bool
    output_format: OutputFormat
    part_bytes: int
    shard: tuple[int, int]
    truncation: Reading
    granularity: Granularity
    labels: tuple[str, ...] | None
    device: str
    dtype: str
    overwrite: bool


@dataclass(frozen=True, slots=True)
class Started:
    """A planned job: the units of this shard that are `left`, and the row count of those done.

    `success` has the totals if the job is finished.
    """

    manifest: Manifest
    output: Output
    checkpoint: Path
    left: tuple[int, ...]
    done: int
    success: Success | None


def find_model(options: Options) -> tuple[Path, Model]:
    """Returns the folder of the checkpoint, and what will answer; raises as `start`."""
    checkpoint = local_folder(options.checkpoint)
    model = describe(
        open_checkpoint(checkpoint, trial=True),
        device=options.device,
        dtype=options.dtype,
        truncation=options.truncation,
        granularity=options.granularity,
        labels=options.labels,
    )
    return checkpoint, model


@contextmanager
def start(options: Options, *, say: Callable[[str], None]) -> Iterator[Started]:
    """Plans a job, or finds what is left of one; keeps its shard from other jobs meanwhile.

    Raises:
        ScoringError: an input, the output or an option cannot be used, or differs from those that
            the job started with.
        model.errors.ModelError: the checkpoint cannot be used.
    """
    checkpoint, model = find_model(options)
    inputs = find_inputs(options.inputs, output=options.output)
    if inputs.skipped:
        shown = ", ".join(inputs.skipped[:_SHOWN])
        say(f"skipped {len(inputs.skipped):,} files that have another suffix: {shown}")
    if inputs.links:
        shown = ", ".join(inputs.links[:_SHOWN])
        say(f"skipped {len(inputs.links):,} links to files that are read anyway: {shown}")
    check_output(options.output)
    output = Output(options.output)
    output.prepare()
    with ExitStack() as held:
        if options.overwrite or output.success() is None:
            with output.starting():
                held.enter_context(output.locked(options.shard))
                if options.overwrite:
                    _overwrite(options, output, inputs.files, model, say)
        yield _plan(options, output, inputs.files, checkpoint, model, say)


def _overwrite(
    options: Options,
    output: Output,
    files: Sequence[InputFile],
    model: Model,
    say: Callable[[str], None],
) -> None:
    """Plans a job in place of an earlier one; keeps what other shards of this job have written."""
    earlier = None
    with suppress(OutputError):
        earlier = output.manifest()
    number, count = options.shard
    if count > 1 and earlier and not _differences(options, earlier, files, model):
        own = [unit.number for unit in earlier.units if unit.number % count == number - 1]
        output.clear_parts(earlier, own)
    elif not output.is_shared(options.shard):
        manifest = _make(options, files, model, say)  # may fail: nothing is removed before
        output.clear()
        output.begin(manifest)
    elif earlier:
        raise output.busy()
    # Otherwise another shard is planning.


def _plan(
    options: Options,
    output: Output,
    files: Sequence[InputFile],
    checkpoint: Path,
    model: Model,
    say: Callable[[str], None],
) -> Started:
    manifest = output.manifest()
    if manifest is None:
        manifest = output.begin(_make(options, files, model, say))
    _check_same(options, manifest, files, model)
    output.follow(manifest)
    success = output.success()
    number, count = options.shard
    own = [unit for unit in manifest.units if unit.number % count == number - 1]
    done = set() if success is not None else output.done(manifest)
    return Started(
        manifest,
        output,
        checkpoint,
        left=tuple(unit.number for unit in own if success is None and unit.number not in done),
        done=sum(unit.rows for unit in own if success is not None or unit.number in done),
        success=success,
    )


def job_of(started: Started, *, threads: int) -> Job:
    """Returns what a process needs that has so many threads."""
    model = started.manifest.model
    return Job(
        manifest=to_json(started.manifest).decode(),
        output=started.output.path,
        checkpoint=str(started.checkpoint),
        device=model.device,
        dtype=model.dtype,
        threads=threads,
    )


def _make(
    options: Options, files: Sequence[InputFile], model: Model, say: Callable[[str], None]
) -> Manifest:
    say(f"planning {len(files):,} files")
    manifest = make_manifest(
        files,
        text_column=options.text_column,
        columns=options.columns,
        delimiter=options.delimiter,
        encoding=options.encoding,
        no_header=options.no_header,
        output_format=options.output_format,
        part_bytes=options.part_bytes,
        model=model,
    )
    for column in manifest.columns:
        if column.name != column.output_name:
            say(f"the input's column {column.name!r} is kept as {column.output_name!r}")
    return manifest


def _check_same(
    options: Options, manifest: Manifest, files: Sequence[InputFile], model: Model
) -> None:
    """Rejects other inputs, another model and other options."""
    differences = _differences(options, manifest, files, model)
    if differences:
        more = len(differences) - _SHOWN
        shown = "; ".join(differences[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        raise OutputError(
            options.output,
            f"holds a job that began otherwise: {shown}: choose another --output, or start again "
            "with --overwrite",
        )


def _differences(
    options: Options, manifest: Manifest, files: Sequence[InputFile], model: Model
) -> list[str]:
    return [
        *_model_differences(manifest.model, model),
        *_option_differences(options, manifest),
        *_spelling_differences(options, manifest.sources),
        *_input_differences(manifest.sources, files),
    ]


def _model_differences(before: Model, now: Model) -> Iterator[str]:
    names = {"version": "the model", "dtype": "--dtype", "device": "--device"}
    if before.version == now.version and before.labels != now.labels:
        yield f"the labels were {','.join(before.labels)}, are {','.join(now.labels)}"
    if before.version == now.version and before.temperature != now.temperature:
        yield f"the temperature was {before.temperature}, is {now.temperature}"
    if before.version == now.version and before.max_length != now.max_length:
        yield f"the model read {before.max_length} tokens, reads {now.max_length}"
    for name in ("version", "device", "dtype", "truncation", "granularity"):
        earlier, later = getattr(before, name), getattr(now, name)
        if earlier != later:
            yield f"{names.get(name, f'--{name}')} was {earlier}, is {later}"


def _option_differences(options: Options, manifest: Manifest) -> Iterator[str]:
    if options.output_format != manifest.output_format:
        yield f"--format was {manifest.output_format}, is {options.output_format}"
    if options.part_bytes != manifest.part_bytes:
        yield f"--part-bytes was {manifest.part_bytes}, is {options.part_bytes}"
    if not find([manifest.text_column], options.text_column or manifest.text_column):
        yield f"--text-column was {manifest.text_column}, is {options.text_column}"
    kept = tuple(column.name for column in manifest.columns)
    wanted = kept if options.columns is None else options.columns
    if len(wanted) != len(kept) or not all(
        find([name], each) for name, each in zip(kept, wanted, strict=True)
    ):
        yield f"--columns was {','.join(kept)}, is {','.join(wanted)}"


def _spelling_differences(options: Options, sources: Sequence[Source]) -> Iterator[str]:
    tables = [source for source in sources if source.format != "parquet"]
    before = {source.encoding for source in tables}
    if before - {options.encoding}:
        yield f"--encoding was {before.pop() or 'left out'}, is {options.encoding or 'left out'}"
    if any(each.no_header != options.no_header for each in tables if each.format != "jsonl"):
        words = ("left out", "given")
        yield f"--no-header was {words[not options.no_header]}, is {words[options.no_header]}"
    delimiters = {source.delimiter for source in tables if source.format == "csv"}
    if options.delimiter is not None and delimiters - {options.delimiter}:
        yield f"--delimiter was {delimiters.pop()!r}, is {options.delimiter!r}"


def _input_differences(sources: Sequence[Source], files: Sequence[InputFile]) -> Iterator[str]:
    before = {source.path: source for source in sources}
    now = {file.path: file for file in files}
    yield from (f"{path} is new" for path in now if path not in before)
    yield from (f"{path} is missing" for path in before if path not in now)
    if list(before) != list(now) and before.keys() == now.keys():
        yield "the inputs are named in another order"
    for path, file in now.items():
        source = before.get(path)
        if source is None or file.status.modified == source.modified:
            same = source is None or file.status.size == source.size
        else:
            same = file.status.size == source.size and digest(file, source) == source.sha256
        if not same:
            yield f"{path} has changed"
