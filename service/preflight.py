"""Checks settings, keys, checkpoint and device before anything is served; reports all faults."""

import importlib
import os
from collections.abc import Collection, Mapping
from functools import partial

from model import Checkpoint, open_checkpoint
from model.backends.base import Backend
from model.backends.device import choose_backend, choose_device, choose_dtype
from model.checkpoint.hub_folder import local_folder
from model.errors import CheckpointError, ConfigurationError, HubError, SigningKeyError
from service.formats.size_estimates import MOST_BYTES_PER_WEIGHT
from service.http.access import load_api_keys
from service.http.gate import ApiKeys
from service.http.server import plan_capacity
from service.settings import Settings, SettingsError, name_of, read_settings
from service.tracing.environment import find_faults


def prepare(options: Mapping[str, str]) -> tuple[Settings, ApiKeys, Checkpoint, Backend]:
    """Checks the options, keys, checkpoint folder and backend, and returns them.

    Raises:
        SettingsError: something is wrong; lists all that is.
    """
    settings, faults = read_settings(options)
    api_keys = ApiKeys(frozenset())
    checkpoint = None
    try:
        api_keys = load_api_keys(settings, options)
    except SettingsError as error:
        faults += error.faults
    faults += _keyless(settings, options)
    faults += _check_limits(settings, options)
    faults += find_faults(os.environ)
    try:
        checkpoint = _open_checkpoint(settings, options)
        _check_queue(settings, checkpoint, options)
    except (CheckpointError, HubError) as error:
        faults.append(f"{name_of('checkpoint', options)}: {error}")
    except OSError as error:  # of the folder that a checkpoint of the hub is kept in
        reason = f"{error.filename}: {error.strerror}"
        faults.append(f"{name_of('checkpoint', options)}: {reason}")
    except SettingsError as error:
        faults += error.faults
    backend = None
    try:
        backend = _choose_backend(settings, checkpoint, options)
    except SettingsError as error:
        faults += error.faults
    if faults or checkpoint is None or backend is None:
        raise SettingsError(sorted(faults))
    return settings, api_keys, checkpoint, backend


def _open_checkpoint(settings: Settings, options: Collection[str]) -> Checkpoint:
    """Opens the checkpoint; if there is a key, its owner must have signed it.

    Raises:
        CheckpointError: the folder is damaged, or its signature is not right.
        HubError: the name of the setting cannot be fetched.
        SettingsError: the key cannot be used.
    """
    folder = local_folder(settings.checkpoint, check=partial(open_checkpoint, trial=True))
    if settings.checkpoint_key is None:
        return open_checkpoint(folder, trial=True)
    name = name_of("checkpoint_key", options)
    try:
        # Imported only now: it needs an extra.
        signing = importlib.import_module("model.checkpoint.signing")
        signing.verify_checkpoint(folder, settings.checkpoint_key)
        checkpoint = open_checkpoint(folder, trial=True)
        # Again, in case a file was replaced before it was read. The weights are read later, and
        # only if they have the digest of these.
        signing.verify_checkpoint(folder, settings.checkpoint_key)
    except SigningKeyError as error:
        raise SettingsError([f"{name}: {error}"]) from error
    except ModuleNotFoundError as error:
        raise SettingsError(
            [
                f"{name}: {error.name} is not installed, which signatures need: "
                "install the extra signing, or build the image with --build-arg EXTRA=signing"
            ]
        ) from error
    return checkpoint


def _choose_backend(
    settings: Settings, checkpoint: Checkpoint | None, options: Collection[str]
) -> Backend | None:
    """Returns the backend of the settings; None without a checkpoint to choose it for.

    Raises:
        SettingsError: the device is missing, or it or the network does not compute in the type.
    """
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


def _check_limits(settings: Settings, options: Collection[str]) -> list[str]:
    """Returns what does not fit: connections into the open files, or an answer."""
    faults = []
    try:
        plan_capacity(settings.max_connections)
    except ValueError as error:
        faults.append(f"{name_of('max_connections', options)}: {error}")
    largest = settings.max_attention_weights * MOST_BYTES_PER_WEIGHT
    if settings.max_sending_bytes < largest:
        name, other = (
            name_of(field, options) for field in ("max_sending_bytes", "max_attention_weights")
        )
        faults.append(
            f"{name}: is {settings.max_sending_bytes}, but an answer of "
            f"{settings.max_attention_weights} weights takes up to {largest} bytes while it is "
            f"made: raise it to {largest}, or lower {other}"
        )
    return faults


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


def _check_queue(settings: Settings, checkpoint: Checkpoint, options: Collection[str]) -> None:
    """Checks that the queue holds the largest request.

    Raises:
        SettingsError: it does not, so that the request could never be answered.
    """
    max_length = checkpoint.manifest.max_length
    largest = settings.max_sentences * max_length
    if settings.max_queue_tokens < largest:
        name, other = (name_of(field, options) for field in ("max_queue_tokens", "max_sentences"))
        raise SettingsError(
            [
                f"{name}: is {settings.max_queue_tokens}, but a request may have "
                f"{settings.max_sentences} sentences of {max_length} tokens: raise it to "
                f"{largest}, or lower {other}"
            ]
        )
