"""Runs the service: reads options and environment, checks them, serves until a signal comes."""

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NoReturn

from model import Checkpoint
from model.backends.base import Backend, Processor
from model.checkpoint.location import renamed
from model.cli.arguments import LineParser, add_version, project_version
from model.cli.process import share_one_heap
from service.app import create_app
from service.http.middleware import Layer, Lifecycle
from service.http.server import listen, serve
from service.logs import configure_logging
from service.preflight import prepare
from service.settings import FORMER, PREFIX, Settings, SettingsError, former_settings, name_of
from service.tracing.environment import is_wanted

logger = logging.getLogger("headlight.server")

_STUCK = 70
_NO_OPTION = frozenset({"api_keys"})


def run(arguments: Sequence[str] | None) -> int:
    """Runs the service until a signal ends it.

    Returns:
        0 after an orderly end; 1 if the service could not start, with the reason on stderr. The
        process ends with 70 (an internal error, as sysexits.h has it) if a forward pass does not.
    """
    given = vars(make_parser().parse_args(arguments))
    share_one_heap()
    options = {name: value for name, value in given.items() if value is not None}
    try:
        settings, api_keys, checkpoint, backend = prepare(options)
    except SettingsError as error:
        return _refuse(str(error))
    if isinstance(backend, Processor):  # passes keep its cores busy
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        listening = listen(settings.host, settings.port)
    except OSError as error:
        return _refuse(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; "
            f"choose others with {name_of('host', options)} and {name_of('port', options)}"
        )
    lifecycle = Lifecycle()
    configure_logging(settings.log_format)
    if (note := renamed(settings.checkpoint)) is not None:
        logger.warning(note)
    if former := former_settings(options):
        logger.warning("settings without effect: leave them out", extra={"settings": former})
    with _tracing(checkpoint, backend) as tracing:
        app = create_app(
            settings, checkpoint, backend, api_keys=api_keys, lifecycle=lifecycle, tracing=tracing
        )
        serve(app, listening, settings, lifecycle)
    if lifecycle.stuck:
        _end_now()
    return 0


@contextmanager
def _tracing(checkpoint: Checkpoint, backend: Backend) -> Iterator[Layer | None]:
    """Makes the layer that traces requests, if traces are wanted; sends the last spans."""
    if not is_wanted(os.environ):
        yield None
        return
    # Imported only now: they need an extra.
    from service.http.tracing import TracingMiddleware
    from service.tracing.export import Export, describe

    export = Export(
        describe(project_version(), checkpoint.name, checkpoint.version, backend.device)
    )
    try:
        yield partial(TracingMiddleware, tracer=export.tracer)
    finally:
        export.close()


def _end_now() -> NoReturn:
    """Ends the process though one of its threads never will."""
    logger.critical("ended with a forward pass that does not end")
    logging.shutdown()
    os._exit(_STUCK)


def _refuse(message: str) -> int:
    print(f"headlight-serve: {message}", file=sys.stderr)
    return 1


def make_parser() -> argparse.ArgumentParser:
    """The options: all settings but those that are only variables."""
    parser = LineParser(
        prog="headlight-serve",
        description="Serves a checkpoint: POST /predict, GET /attention, and a page.",
        epilog=f"Each option is also an environment variable with the prefix {PREFIX}; "
        f"{PREFIX}API_KEYS is only a variable, so that no key shows in a list of processes.",
        allow_abbrev=False,
    )
    add_version(parser)
    for name, field in Settings.model_fields.items():
        if name in _NO_OPTION:
            continue
        default = "" if field.default is None else f" (default: {field.default})"
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            metavar=name.rsplit("_", 1)[-1].upper(),
            help=f"{field.description}{default}",
        )
    for name in FORMER:
        parser.add_argument(f"--{name.replace('_', '-')}", help=argparse.SUPPRESS)
    return parser
