"""`headlight-serve`: from options and environment to a running service."""

import argparse
import sys
from collections.abc import Sequence

from model import Checkpoint, open_checkpoint
from model.errors import ModelError
from service.api_keys import load_api_keys
from service.app import create_app
from service.lifecycle import Lifecycle
from service.logs import configure_logging
from service.server import listen, serve
from service.settings import PREFIX, Settings, SettingsError, load_settings

_NO_OPTION = frozenset({"api_keys"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the service until a signal ends it.

    Args:
        arguments: of the command line; those of the process if None.

    Returns:
        0 after an orderly end; 1 if the service could not start, with the reason on stderr.
    """
    given = vars(_parser().parse_args(arguments))
    options = {name: value for name, value in given.items() if value is not None}
    try:
        settings = load_settings(options)
        api_keys = load_api_keys(settings)
        checkpoint = open_checkpoint(settings.checkpoint)
        _check_queue(settings, checkpoint)
        lifecycle = Lifecycle()
        app = create_app(settings, checkpoint, api_keys=api_keys, lifecycle=lifecycle)
        listening = listen(settings.host, settings.port)
    except (SettingsError, ModelError) as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; "
            f"choose others with {PREFIX}HOST and {PREFIX}PORT"
        )
    configure_logging(settings.log_format)
    serve(app, listening, settings, lifecycle)
    return 0


def _refuse(message: str) -> int:
    print(f"headlight-serve: {message}", file=sys.stderr)
    return 1


def _check_queue(settings: Settings, checkpoint: Checkpoint) -> None:
    """The queue must hold the largest request, or that request could never be answered.

    Raises:
        SettingsError: it does not.
    """
    largest = settings.max_sentences * checkpoint.manifest.max_length
    if settings.max_queue_tokens < largest:
        raise SettingsError(
            [
                f"{PREFIX}MAX_QUEUE_TOKENS: is {settings.max_queue_tokens}, but a request may "
                f"have {settings.max_sentences} sentences of {checkpoint.manifest.max_length} "
                f"tokens: raise it to {largest}, or lower {PREFIX}MAX_SENTENCES"
            ]
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headlight-serve",
        description="Serves a checkpoint: POST /predict, GET /attention, and a page.",
        epilog=f"Each option is also an environment variable with the prefix {PREFIX}; "
        f"{PREFIX}API_KEYS is one alone, so that no key shows in a list of processes.",
        allow_abbrev=False,
    )
    for name, field in Settings.model_fields.items():
        if name in _NO_OPTION:
            continue
        default = "" if field.default is None else f" (default: {field.default})"
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            metavar=name.rsplit("_", 1)[-1].upper(),
            help=f"{field.description}{default}",
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
