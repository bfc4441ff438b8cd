"""Runs `headlight-score`, which scores files of text and writes files of answers."""

import argparse
import importlib
import os
import re
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from model.checkpoint.location import DEFAULT
from model.cli.arguments import LineParser, add_no_header, add_spelling, add_version, positive
from model.cli.process import prepare_process
from model.cli.progress import complain, standard_output
from model.cli.signals import Interruption, raised_signals
from model.errors import ModelError, install_hint
from scoring.errors import ScoringError

if TYPE_CHECKING:
    from scoring.job import Started
    from scoring.manifest import Success
    from scoring.parts import Result

_SHARD = re.compile(r"([1-9]\d*)/([1-9]\d*)")
_EXTRAS = {"ray": "score,ray"}
_SHOWN = 5
_PROCESSES_A_GPU = 4  # while one writes, the others keep it busy
_NOTHING = (
    "nothing is written; run the same command again, or with --parts --output DIR, which goes on "
    "where it was interrupted"
)
_IN_PART = "standard output lacks rows; run the same command again"


def main(arguments: Sequence[str] | None = None) -> int:
    """Scores files.

    Returns:
        0 if all rows are scored or set aside, 1 if not, with the reason on stderr, and 128 plus the
        number of the signal that interrupted it.
    """
    prepare_process()
    parsed = _parser().parse_args(arguments)
    progress = _Progress()
    with raised_signals(progress.interrupted):
        return _reported(parsed, progress)


def _reported(parsed: argparse.Namespace, progress: "_Progress") -> int:
    """Runs the command, and reports what ends it in one line."""
    try:
        importlib.import_module("pyarrow")  # what follows takes seconds
        return _run(parsed, progress)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in {"model", "scoring"}:
            raise
        hint = install_hint(_EXTRAS.get(package, "score"))
        return _fail(
            f"{error.name} is not installed, which scoring files needs and serving does not: {hint}"
        )
    except Interruption as interruption:
        return _fail(str(interruption), 128 + interruption.signal)
    except MemoryError:
        return _fail(f"memory ran out: free some, or try fewer --workers; {progress.kept}")
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        return _fail(f"{place}{error.strerror or error}; {progress.kept}")
    except (ScoringError, ModelError) as error:
        return _fail(str(error))


def _run(parsed: argparse.Namespace, progress: "_Progress") -> int:
    from scoring.one_file import is_for_one_file, score_one

    if parsed.engine != "ray" and parsed.ray_address is not None:
        raise ScoringError("--ray-address is for --engine ray: leave it out, or choose that engine")
    if is_for_one_file(parsed):
        lost: list[OSError] = []

        def tell(line: str) -> None:
            try:
                with standard_output() as output:
                    print(line, file=output, flush=True)
            except OSError as error:
                lost.append(error)  # the answers are worth more

        progress.kept = _IN_PART if parsed.output == "-" else _NOTHING
        say = complain if parsed.output == "-" else tell  # rows or words on standard output
        lines = score_one(parsed, say)
        progress.kept = "the answers are written"
        for line in lines:
            say(line)
        if lost:
            raise lost[0]
        return 0
    if not parsed.output:
        raise ScoringError(
            "--output is missing: give a folder for the parts, as in --output scored"
        )
    if parsed.compare is not None:
        raise ScoringError("--compare is for one file into one file: leave it out, or --parts")
    from scoring.job import start

    with start(parsed, say=complain) as started:
        if started.success is not None:
            complain(f"{parsed.output} is finished already: {_counts(started.success)}")
            started.output.finish(started.job.manifest)
            return 0
        return _score(parsed, started, progress)


def _score(parsed: argparse.Namespace, started: "Started", progress: "_Progress") -> int:
    """Runs the units that are left, shows how far they have come, and adds up."""
    from model.cli.progress import progress as shown
    from scoring.parts import UnitFailure

    began = time.monotonic()
    left = sum(started.job.manifest.units[number].rows for number in started.left)
    progress.total = len(started.left)
    failures = []
    with (
        closing(_results(parsed, started)) as results,  # ends the workers if a signal comes
        shown(started.done + left, "score", done=started.done) as advance,
    ):
        for result in results:
            progress.done += 1
            if isinstance(result, UnitFailure):
                failures.append(result)
            else:
                advance(result.rows_in, f"part {progress.done} of {progress.total}")
    if failures:
        for failure in failures[:_SHOWN]:
            _fail(failure.message)
        more = f", {len(failures) - _SHOWN} of them not shown" if len(failures) > _SHOWN else ""
        return _fail(
            f"{len(failures)} of {progress.total} parts are not written{more}: fix this, then run "
            "the same command to go on"
        )
    _report(parsed, started, left, time.monotonic() - began)
    return 0


def _report(parsed: argparse.Namespace, started: "Started", rows: int, seconds: float) -> None:
    success = started.output.finish(started.job.manifest, started.left)
    rate = f"{rows:,} rows in {seconds:.0f} s, {rows / max(seconds, 1e-9):,.0f}/s"
    if success is None:
        complain(f"{rate}; other shards are not finished")
        return
    complain(f"{rate}; {_counts(success)}")
    shares = ", ".join(f"{name} {count:,}" for name, count in success.labels.items())
    complain(f"labels: {shares}; cut short: {success.truncated:,}")
    if success.bad_rows:
        reasons = list(success.reasons.items())
        for reason, count in reasons[:_SHOWN]:
            complain(f"bad rows: {count:,}: {reason}")
        complain(f"all bad rows: {parsed.output.rstrip('/')}/bad-rows.jsonl")


def _counts(success: "Success") -> str:
    return (
        f"{success.rows_out:,} of {success.rows_in:,} rows are scored in {success.parts:,} parts, "
        f"{success.bad_rows:,} are bad"
    )


def _results(parsed: argparse.Namespace, started: "Started") -> "Generator[Result, None, None]":
    """Runs the parts that are left on the engine of the options."""
    from model.backends.device import count_gpus
    from model.backends.threads import choose_threads
    from scoring.engines.local import LocalEngine

    job = started.job
    if parsed.engine == "ray":
        from scoring.engines.ray import RayEngine

        engine = RayEngine(job, address=parsed.ray_address, workers=parsed.workers)
        return engine.run(started.left)
    gpus: tuple[int, ...] = ()
    if job.device == "cuda":
        named = parsed.device.partition(":")[2]
        gpus = (int(named),) if named else tuple(range(count_gpus()))
    cores = choose_threads(0)
    workers = parsed.workers or _PROCESSES_A_GPU * len(gpus) or cores
    job = replace(job, threads=max(1, cores // workers))
    return LocalEngine(job, workers=workers, gpus=gpus).run(started.left)


class _Progress:
    """How far the command has come, for the message of what ends it."""

    def __init__(self) -> None:
        self.done = 0
        self.total: int | None = None
        self.kept = "run the same command to go on"

    def interrupted(self) -> str:
        shown = "" if self.total is None else f"{self.done} of {self.total} parts are written; "
        return f"interrupted: {shown}{self.kept}"


def _columns(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def _shard(text: str) -> tuple[int, int]:
    match = _SHARD.fullmatch(text)
    if match is None or int(match[1]) > int(match[2]):
        raise argparse.ArgumentTypeError(
            f"must be I/N with I from 1 to N, such as 1/8, got {text!r}"
        )
    return int(match[1]), int(match[2])


def _parser() -> argparse.ArgumentParser:
    parser = LineParser(
        prog="headlight-score",
        description="Scores files of text without a server. From reviews.csv it writes "
        "reviews.scored.csv, with a label and a score in each row; from several files a folder of "
        "parts, and goes on where it was interrupted.",
        allow_abbrev=False,
    )
    add_version(parser)
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="CSV, TSV, text, JSON (each also .gz, .zst, .bz2 or .zip), .xlsx or Parquet: a file, "
        "folder, glob or URL",
    )
    parser.add_argument(
        "--output",
        metavar="PATH",
        help="a file such as scored.csv, - for standard output, or a folder or its URL (default: "
        "FILE.scored.csv)",
    )
    parser.add_argument("--parts", action="store_true", help="write a folder for one file too")
    parser.add_argument(
        "--compare", metavar="COLUMN", help="of one file: labels or stars to compare with"
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        default=DEFAULT,
        metavar="DIR",
        help="the model: a folder, or hf:NAME@REVISION (default: the one that ships)",
    )
    parser.add_argument(
        "--text-column", metavar="NAME", help="the column of texts (default: known by its name)"
    )
    parser.add_argument(
        "--columns",
        type=_columns,
        metavar="A,B",
        help="columns of the input to keep (default: all)",
    )
    add_spelling(parser)
    add_no_header(parser)
    parser.add_argument(
        "--format",
        dest="output_format",
        choices=("parquet", "input"),
        default="parquet",
        help="of the parts; input: as each input is written (default: parquet)",
    )
    parser.add_argument(
        "--part-bytes",
        type=positive,
        default=8 * 1024 * 1024,
        metavar="N",
        help="bytes of unpacked text in a part; Parquet is divided by its row groups "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="what runs the workers: this machine, or a Ray cluster (default: local)",
    )
    parser.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="processes, or threads for one file (default: one a core, or four a GPU)",
    )
    parser.add_argument(
        "--shard",
        type=_shard,
        default=(1, 1),
        metavar="I/N",
        help="score only every N-th part, starting with the I-th; all shards share the output",
    )
    parser.add_argument(
        "--ray-address", metavar="URL", help="of the cluster (default: one on this machine)"
    )
    parser.add_argument(
        "--truncation",
        choices=("right", "left", "error", "window"),
        default="right",
        help="the end of a long text to cut off; error: it is a bad row; window: it is read whole, "
        "in windows (default: right)",
    )
    parser.add_argument(
        "--granularity",
        choices=("text", "sentence"),
        default="text",
        help="sentence: score the sentences of each text too, in a column sentences "
        "(default: text)",
    )
    parser.add_argument(
        "--labels",
        type=_columns,
        metavar="A,B",
        help="two or more of the model's labels to choose among (default: all)",
    )
    parser.add_argument(
        "--device", default="auto", metavar="NAME", help="auto, cpu, cuda or cuda:N (default: auto)"
    )
    parser.add_argument(
        "--dtype",
        choices=("auto", "float32", "bfloat16", "float16", "int8"),
        default="auto",
        help="of matrix products (default: auto, as in the service)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")
    return parser


def _fail(message: str, code: int = 1) -> int:
    complain(f"headlight-score: {message}")
    return code


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
