"""Runs a job from its options to its totals: plans or goes on, describes what is left."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from model.checkpoint.location import local_folder
from model.checkpoint.opening import open_checkpoint
from model.tables.columns import find, partitions, show
from scoring.errors import OutputError
from scoring.folder import Output
from scoring.inputs import InputFile, find_inputs
from scoring.manifest import Manifest, Source, Success, digest, make_manifest
from scoring.parts import Job
from scoring.scorer import Model, describe

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Started:
    """A planned job: the units of this shard that are `left`, and the row count of those done.

    `success` has the totals if the job is finished.
    """

    job: Job
    output: Output
    left: tuple[int, ...]
    done: int
    success: Success | None


@contextmanager
def start(options: Namespace, *, say: Callable[[str], None]) -> Iterator[Started]:
    """Plans a job, or finds what is left of one; keeps its shard from other jobs meanwhile.

    Raises:
        ScoringError: an input, the output or an option cannot be used, or differs from those that
            the job started with.
        model.errors.ModelError: the checkpoint cannot be used.
    """
    checkpoint = open_checkpoint(local_folder(options.checkpoint), trial=True)
    how = ("device", "dtype", "truncation", "granularity", "labels")
    model = describe(checkpoint, *(getattr(options, name) for name in how))
    inputs = find_inputs(options.inputs, output=options.output)
    for line in inputs.skipped_lines():
        say(line)
    output = Output(options.output)
    output.prepare()
    with ExitStack() as held:
        planner = _Planner(options, output, inputs.files, model, say)
        if options.overwrite or output.success() is None:
            with output.starting():
                held.enter_context(output.locked(options.shard))
                if options.overwrite:
                    planner.overwrite()
        yield planner.start(str(checkpoint.path))


@dataclass(frozen=True, slots=True)
class _Planner:
    """What a job is planned from, and where the plan goes."""

    options: Namespace
    output: Output
    files: Sequence[InputFile]
    model: Model
    say: Callable[[str], None]

    def overwrite(self) -> None:
        """Plans a job in place of an earlier one; keeps what other shards of it have written."""
        earlier = None
        with suppress(OutputError):
            earlier = self.output.manifest()
        number, count = self.options.shard
        if count > 1 and earlier and not self._differences(earlier):
            own = [unit.number for unit in earlier.units if unit.number % count == number - 1]
            self.output.clear_parts(earlier, own)
        elif not self.output.is_shared(self.options.shard):
            manifest = self._make()  # may fail: nothing is removed before
            self.output.clear()
            self.output.begin(manifest)
        elif earlier:
            raise self.output.busy()
        # Otherwise another shard is planning.

    def start(self, checkpoint: str) -> Started:
        """Plans a job unless it has begun, and finds what is left; rejects another one."""
        output = self.output
        manifest = output.manifest()
        if manifest is None:
            manifest = output.begin(self._make())
        differences = self._differences(manifest)
        if differences:
            more = len(differences) - _SHOWN
            shown = "; ".join(differences[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
            raise OutputError(
                self.options.output,
                f"holds a job that began otherwise: {shown}: choose another --output, or start "
                "again with --overwrite",
            )
        output.follow(manifest)
        success = output.success()
        number, count = self.options.shard
        own = [unit for unit in manifest.units if unit.number % count == number - 1]
        done = set() if success is not None else output.done(manifest)
        return Started(
            Job(manifest, output.path, checkpoint, self.model.device, threads=1),
            output,
            left=tuple(unit.number for unit in own if success is None and unit.number not in done),
            done=sum(unit.rows for unit in own if success is not None or unit.number in done),
            success=success,
        )

    def _make(self) -> Manifest:
        self.say(f"planning {len(self.files):,} files")
        manifest = make_manifest(self.files, self.options, self.model)
        for column in manifest.columns:
            if column.name != column.output_name:
                self.say(f"the input's column {column.name!r} is kept as {column.output_name!r}")
        tables = [each for each in manifest.sources if each.rows and each.format != "jsonl"]
        known = [{*each.header, *partitions(each.path)} for each in tables]
        names = [column.name for column in manifest.columns]
        if partial := [name for name in names if not all(name in each for each in known)]:
            self.say(f"{len(partial):,} columns are empty where files lack them: {show(partial)}")
        if empty := [each.path for each in manifest.sources if not each.rows]:
            self.say(f"{len(empty):,} files have no rows: {', '.join(empty[:_SHOWN])}")
        return manifest

    def _differences(self, manifest: Manifest) -> list[str]:
        began, asked = manifest.model, self.model
        pairs: list[tuple[str, object, object]] = [("the model", began.version, asked.version)]
        if began.version == asked.version:
            pairs += [
                ("--labels", ",".join(began.labels), ",".join(asked.labels)),
                ("the temperature", began.temperature, asked.temperature),
                ("the number of tokens that the model reads", began.max_length, asked.max_length),
            ]
        names = ("device", "dtype", "truncation", "granularity")
        pairs += [(f"--{name}", getattr(began, name), getattr(asked, name)) for name in names]
        pairs += [
            ("--format", manifest.output_format, self.options.output_format),
            ("--part-bytes", manifest.part_bytes, self.options.part_bytes),
            *_column_pairs(self.options, manifest),
            *_spelling_pairs(self.options, manifest.sources),
        ]
        return [
            *dict.fromkeys(
                f"{name} was {before}, is {now}" for name, before, now in pairs if before != now
            ),
            *_input_differences(manifest.sources, self.files),
        ]


def _column_pairs(options: Namespace, manifest: Manifest) -> Iterator[tuple[str, object, object]]:
    """Yields columns as they were and are; spaces around a name make no difference."""
    text = manifest.text_column
    if options.text_column is not None and not find([text], options.text_column):
        yield "--text-column", text, options.text_column
    kept = [column.name for column in manifest.columns]
    wanted = kept if options.columns is None else list(options.columns)
    if len(wanted) != len(kept) or not all(map(find, [[name] for name in kept], wanted)):
        yield "--columns", ",".join(kept), ",".join(wanted)


def _spelling_pairs(
    options: Namespace, sources: Sequence[Source]
) -> Iterator[tuple[str, object, object]]:
    for source in sources:
        if source.format == "parquet":
            continue
        yield "--encoding", source.encoding or "left out", options.encoding or "left out"
        yield "--sheet", source.sheet or "left out", options.sheet or "left out"
        if source.format != "jsonl":
            words = ("left out", "given")
            yield "--no-header", words[source.no_header], words[options.no_header]
        if source.format == "csv" and options.delimiter is not None:
            yield "--delimiter", repr(source.delimiter), repr(options.delimiter)


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
