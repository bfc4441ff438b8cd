"""Checks settings, keys, checkpoint and device before anything is served; reports all errors."""

import importlib
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeVar

from model import Checkpoint, open_checkpoint
from model.backends.base import Backend
from model.backends.device import choose_backend, choose_device, choose_dtype
from model.checkpoint.location import local_folder
from model.errors import CheckpointError, ConfigurationError, HubError, install_hint
from service.http.access import ApiKeys, load_api_keys
from service.http.server import plan_capacity
from service.settings import Settings, SettingsError, name_of, read_settings
from service.tracing.environment import find_errors

Result = TypeVar("Result")


def prepare(options: Mapping[str, str]) -> tuple[Settings, ApiKeys, Checkpoint, Backend]:
    """Checks the options, keys, checkpoint folder and backend, and returns them.

    Raises:
        SettingsError: something is wrong; lists all that is.
    """
    settings, errors = read_settings(options)

    def attempt(work: Callable[..., Result], *arguments: object) -> Result | None:
        try:
            return work(settings, *arguments, options)
        except SettingsError as error:
            errors.extend(error.errors)
            return None

    api_keys = attempt(load_api_keys)
    errors += _keyless(settings, options)
    errors += find_errors(os.environ)
    checkpoint = attempt(_open_checkpoint)
    errors += _check_limits(settings, checkpoint, options)
    backend = attempt(_choose_backend, checkpoint)
    if errors or api_keys is None or checkpoint is None or backend is None:
        raise SettingsError(sorted(errors))
    return settings, api_keys, checkpoint, backend


def _open_checkpoint(settings: Settings, options: Collection[str]) -> Checkpoint:
    """Opens the checkpoint; raises SettingsError if it is damaged, missing or wrongly signed."""
    name = name_of("checkpoint", options)
    try:
        # `command` logs the note, once there is a log.
        folder = local_folder(settings.checkpoint, note=lambda _: None)
        if settings.checkpoint_key is None:
            return open_checkpoint(folder, trial=True)
        return _open_signed(folder, settings.checkpoint_key, name_of("checkpoint_key", options))
    except (CheckpointError, HubError) as error:
        raise SettingsError([f"{name}: {error}"]) from error
    except OSError as error:  # of the folder that a checkpoint of the hub is kept in
        raise SettingsError([f"{name}: {error.filename}: {error.strerror}"]) from error


def _open_signed(folder: Path, key: Path, name: str) -> Checkpoint:
    try:
        # Imported only now: it needs an extra.
        signing = importlib.import_module("model.checkpoint.signing")
        signing.verify_checkpoint(folder, key)
        checkpoint = open_checkpoint(folder, trial=True)
        # Again, in case a file was replaced before it was read. The weights are read later, and
        # only if they have the digest of these.
        signing.verify_checkpoint(folder, key)
    except ConfigurationError as error:
        raise SettingsError([f"{name}: {error}"]) from error
    except ModuleNotFoundError as error:
        raise SettingsError(
            [
                f"{name}: {error.name} is not installed, which signatures need: "
                f"{install_hint('signing')}, or build the image with --build-arg EXTRA=signing"
            ]
        ) from error
    return checkpoint


def _choose_backend(
    settings: Settings, checkpoint: Checkpoint | None, options: Collection[str]
) -> Backend | None:
    """Returns the backend of the settings, or None without a checkpoint; raises SettingsError."""
    try:
        device = choose_device(settings.device)
    except ConfigurationError as error:
        raise SettingsError([f"{name_of('device', options)}: {error}"]) from error
    try:
        precision = () if checkpoint is None else checkpoint.manifest.precision
        dtype = choose_dtype(settings.dtype, device, precision, set_by=name_of("dtype"))
        if checkpoint is None:
            return None
        return choose_backend(checkpoint, device=device, dtype=dtype, threads=settings.threads)
    except ConfigurationError as error:
        raise SettingsError([f"{name_of('dtype', options)}: {error}"]) from error


def _check_limits(
    settings: Settings, checkpoint: Checkpoint | None, options: Collection[str]
) -> list[str]:
    """Returns what does not fit: connections, or the largest request."""
    errors = []
    try:
        plan_capacity(settings.max_connections)
    except ValueError as error:
        errors.append(f"{name_of('max_connections', options)}: {error}")
    if checkpoint is None:
        return errors
    max_length = checkpoint.manifest.max_length
    largest = settings.max_sentences * max_length
    if settings.max_queue_tokens < largest:
        name, other = (name_of(field, options) for field in ("max_queue_tokens", "max_sentences"))
        errors.append(
            f"{name}: is {settings.max_queue_tokens}, but a request may have "
            f"{settings.max_sentences} sentences of {max_length} tokens: raise it to "
            f"{largest}, or lower {other}"
        )
    return errors


def _keyless(settings: Settings, options: Collection[str]) -> list[str]:
    """Returns what needs a key though there is none."""
    if settings.api_keys is not None or settings.api_keys_file is not None:
        return []
    return [
        f"{name_of(name, options)}: is key, but no key is set: set {name_of('api_keys')} or "
        f"{name_of('api_keys_file')}, or choose open or off"
        for name in ("metrics", "docs", "page")
        if getattr(settings, name) == "key"
    ]
