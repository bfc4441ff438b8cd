"""Checks settings, keys, checkpoint and device before anything is served; tells all faults."""

import importlib
from collections.abc import Mapping

from model import Checkpoint, open_checkpoint
from model.backends.base import Backend
from model.backends.device import choose_backend, choose_device, choose_dtype
from model.errors import CheckpointError, ConfigurationError, SigningKeyError
from service.formats.sizes import MOST_BYTES_PER_WEIGHT
from service.http.access import ApiKeys, load_api_keys
from service.http.connections import plan_capacity
from service.settings import PREFIX, Settings, SettingsError, read_settings


def prepare(options: Mapping[str, str]) -> tuple[Settings, ApiKeys, Checkpoint, Backend]:
    """Reads and checks the settings, the API keys, the checkpoint folder and the backend.

    Args:
        options: settings given on the command line, by their field names.

    Raises:
        SettingsError: something is wrong; lists all that is.
    """
    settings, faults = read_settings(options)
    api_keys = ApiKeys(frozenset())
    checkpoint = None
    try:
        api_keys = load_api_keys(settings)
    except SettingsError as error:
        faults += error.faults
    faults += _keyless(settings)
    faults += _check_limits(settings)
    try:
        checkpoint = _open_checkpoint(settings)
        _check_queue(settings, checkpoint)
    except CheckpointError as error:
        faults.append(f"{PREFIX}CHECKPOINT: {error}")
    except SettingsError as error:
        faults += error.faults
    backend = None
    try:
        backend = _choose_backend(settings, checkpoint)
    except SettingsError as error:
        faults += error.faults
    if faults or checkpoint is None or backend is None:
        raise SettingsError(sorted(faults))
    return settings, api_keys, checkpoint, backend


def _open_checkpoint(settings: Settings) -> Checkpoint:
    """Opens the checkpoint, which the owner of the key must have signed if there is a key.

    Raises:
        CheckpointError: the folder is damaged, or its signature is not right.
        SettingsError: the key cannot be used.
    """
    if settings.checkpoint_key is None:
        return open_checkpoint(settings.checkpoint, trial=True)
    try:
        # Imported only now: it needs an extra.
        signing = importlib.import_module("model.signing")
        signing.verify_checkpoint(settings.checkpoint, settings.checkpoint_key)
        checkpoint = open_checkpoint(settings.checkpoint, trial=True)
        # Again, in case a file was replaced before it was read. The weights are read later, and
        # only if they have the digest of these.
        signing.verify_checkpoint(settings.checkpoint, settings.checkpoint_key)
    except SigningKeyError as error:
        raise SettingsError([f"{PREFIX}CHECKPOINT_KEY: {error}"]) from error
    except ModuleNotFoundError as error:
        raise SettingsError(
            [
                f"{PREFIX}CHECKPOINT_KEY: {error.name} is not installed, which signatures need: "
                "install the extra signing, or build the image with --build-arg EXTRA=signing"
            ]
        ) from error
    return checkpoint


def _choose_backend(settings: Settings, checkpoint: Checkpoint | None) -> Backend | None:
    """The backend of the settings; None without a checkpoint to choose it for.

    Raises:
        SettingsError: the device is not there, or it or the network does not compute in the type.
    """
    try:
        device = choose_device(settings.device)
    except ConfigurationError as error:
        raise SettingsError([f"{PREFIX}DEVICE: {error}"]) from error
    try:
        dtype = choose_dtype(settings.dtype, device)
        if checkpoint is None:
            return None
        return choose_backend(checkpoint, device=device, dtype=dtype, threads=settings.threads)
    except ConfigurationError as error:
        raise SettingsError([f"{PREFIX}DTYPE: {error}"]) from error


def _check_limits(settings: Settings) -> list[str]:
    """What does not fit: the connections into the open files, or an answer into its room."""
    faults = []
    try:
        plan_capacity(settings.max_connections)
    except ValueError as error:
        faults.append(f"{PREFIX}MAX_CONNECTIONS: {error}")
    largest = settings.max_attention_weights * MOST_BYTES_PER_WEIGHT
    if settings.max_sending_bytes < largest:
        faults.append(
            f"{PREFIX}MAX_SENDING_BYTES: is {settings.max_sending_bytes}, but an answer of "
            f"{settings.max_attention_weights} weights takes up to {largest} bytes while it is "
            f"made: raise it to {largest}, or lower {PREFIX}MAX_ATTENTION_WEIGHTS"
        )
    return faults


def _keyless(settings: Settings) -> list[str]:
    """What shall need a key though there is none."""
    if settings.api_keys is not None or settings.api_keys_file is not None:
        return []
    return [
        f"{PREFIX}{name.upper()}: is key, but no key is set: set {PREFIX}API_KEYS or "
        f"{PREFIX}API_KEYS_FILE, or choose open or off"
        for name in ("metrics", "docs", "page")
        if getattr(settings, name) == "key"
    ]


def _check_queue(settings: Settings, checkpoint: Checkpoint) -> None:
    """The queue must hold the largest request, or that request could never be answered.

    Raises:
        SettingsError: it does not.
    """
    max_length = checkpoint.manifest.max_length
    largest = settings.max_sentences * max_length
    if settings.max_queue_tokens < largest:
        raise SettingsError(
            [
                f"{PREFIX}MAX_QUEUE_TOKENS: is {settings.max_queue_tokens}, but a request may "
                f"have {settings.max_sentences} sentences of {max_length} tokens: raise it to "
                f"{largest}, or lower {PREFIX}MAX_SENTENCES"
            ]
        )
