"""Reads the settings from options and environment, and reports all errors at once."""

import ipaddress
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from model.checkpoint.location import DEFAULT
from model.errors import PortableError
from model.tokenization.tokenizer import MAX_WINDOWS
from model.validation import nearest, tell_fault

PREFIX = "HEADLIGHT_"
#: settings that are constants now; their names are accepted for one release
FORMER = ("max_item_sentences", "max_sending_bytes", "watchdog_seconds")

_DEVICE = re.compile(r"auto|cpu|cuda|cuda:[0-9]{1,3}")
_NAME = r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\]"
_HOST = re.compile(rf"(?:\*\.)?(?:{_NAME})")
_RATE = re.compile(r"([1-9][0-9]{0,11})/(second|minute|hour|day)")
_ORIGIN = re.compile(rf"https?://(?:{_NAME})(?::[0-9]{{1,5}})?")
# Bounds that no sensible setting reaches, and that every sum of settings stays countable under.
_GIGABYTE = 1_000_000_000
_DAY = 86_400
# Threads that are taken on any machine.
_ANY_THREADS = 64


class SettingsError(PortableError):
    """Wrong settings; the message lists every error, one a line."""

    def __init__(self, errors: list[str]) -> None:
        count = "1 setting is" if len(errors) == 1 else f"{len(errors)} settings are"
        super().__init__("\n  ".join([f"{count} wrong:", *errors]))
        self.errors = errors


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


def _device(value: str) -> str:
    if not _DEVICE.fullmatch(value):
        hint = " (cuda is the GPU)" if value.strip().lower().startswith("gpu") else ""
        raise ValueError(f"must be auto, cpu, cuda or cuda:N{hint}")
    return value


def _threads(value: int) -> int:
    most = max(_ANY_THREADS, os.cpu_count() or 1)
    if value > most:
        raise ValueError(f"must be at most {most}, more than the cores of this machine")
    return value


def _listed(
    is_right: Callable[[str], object], wanted: str, *, star: bool = False
) -> BeforeValidator:
    """Splits a list with commas, in lower case; None if it is blank. A star may stand for all."""

    def split(value: object) -> object:
        if not isinstance(value, str) or not value.strip():
            return _blank_is_none(value)
        if star and value.strip() == "*":
            return ("*",)
        given = tuple(part.strip().lower() for part in value.split(",") if part.strip())
        wrong = next((part for part in given if not is_right(part)), None)
        if wrong is not None or not given:
            raise ValueError(f"{value if wrong is None else wrong!r} is not {wanted}")
        return given

    return BeforeValidator(split)


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


def _blank_is_none(value: object) -> object:
    # Compose files pass an unset variable on as an empty one.
    return None if isinstance(value, str) and not value.strip() else value


def _count_or_auto(value: object) -> object:
    text = str(value)
    if text == "auto":
        return text
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise ValueError("must be auto, or a whole number from 1 to 999,999,999")
    return int(text)


@dataclass(frozen=True, slots=True)
class Rate:
    """A count for each period."""

    count: int
    period: Literal["second", "minute", "hour", "day"]

    @property
    def seconds(self) -> int:
        """The length of the period."""
        return {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}[self.period]

    def __str__(self) -> str:
        return f"{self.count}/{self.period}"


def _rate(value: object) -> object:
    if not isinstance(value, str) or not value.strip():
        return _blank_is_none(value)
    found = _RATE.fullmatch(value.strip())
    if found is None:
        raise ValueError(
            "must be a number for each second, minute, hour or day, such as 600/minute"
        )
    return Rate(int(found[1]), cast("Any", found[2]))


Access = Literal["open", "key", "off"]
Family = Literal["huggingface", "openinference", "classify", "mlflow"]
FAMILIES: tuple[Family, ...] = get_args(Family)


def _families(value: object) -> object:
    if not isinstance(value, str):
        return value
    given = [part.strip().lower() for part in value.split(",") if part.strip()]
    if given in ([], ["on"]):
        return frozenset(FAMILIES)
    if given == ["off"]:
        return frozenset()
    if not set(given) <= set(FAMILIES):
        raise ValueError(f"must be on, off, or some of {', '.join(FAMILIES)}, with commas between")
    return frozenset(given)


_MaybePath = Annotated[Path | None, BeforeValidator(_blank_is_none)]
_MaybeRate = Annotated[Rate | None, NoDecode, BeforeValidator(_rate)]
_CountOrAuto = Annotated[int | Literal["auto"], BeforeValidator(_count_or_auto)]
_Names = tuple[str, ...] | None
_HOSTS = _listed(_HOST.fullmatch, "a name without a port, such as example.org or *.example.org")
_ORIGINS = _listed(
    _ORIGIN.fullmatch, "an origin, such as https://example.org, or only * for all", star=True
)
_NETWORKS = _listed(
    _is_network, "an address or a network, such as 10.0.0.0/8, or only * for all", star=True
)


class Settings(BaseSettings):
    """All settings; each but the API keys is also an option of the command."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    checkpoint: Path = Field(
        DEFAULT, description="folder of the checkpoint to serve, or hf:NAME@REVISION"
    )
    checkpoint_key: _MaybePath = Field(
        None, description="public key in PEM form, whose owner must have signed the checkpoint"
    )
    host: Annotated[str, AfterValidator(_not_blank)] = Field(
        "127.0.0.1", description="address to listen on"
    )
    port: int = Field(
        8000, ge=0, le=65535, description="port to listen on; 0 takes any that is free"
    )
    device: Annotated[str, AfterValidator(_device)] = Field(
        "auto", description="auto, cpu, cuda or cuda:N"
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16", "int8"] = Field(
        "auto",
        description="float32, bfloat16, float16 (a GPU), int8 (a processor), or auto: the fastest "
        "of the device that the checkpoint's record allows",
    )
    threads: Annotated[int, AfterValidator(_threads)] = Field(
        0, ge=0, description="threads of the forward pass; 0: from the CPU quota or cores"
    )
    preload: Annotated[Literal["gradients"] | None, BeforeValidator(_blank_is_none)] = Field(
        None, description="gradients: import torch at the start, so that the first does not wait"
    )
    max_sentences: int = Field(256, ge=1, le=1_000_000, description="most sentences in one request")
    max_windows: int = Field(
        MAX_WINDOWS, ge=1, le=1_000_000, description="most windows of a text that is read whole"
    )
    max_body_bytes: int = Field(2_000_000, ge=1, le=_GIGABYTE, description="largest request body")
    max_batch_tokens: _CountOrAuto = Field(
        "auto", description="most tokens in one forward pass, padding counted; auto: the device's"
    )
    max_queue_tokens: int = Field(
        262_144,
        ge=1,
        le=_GIGABYTE,
        description="most tokens that may wait; beyond it requests are refused",
    )
    max_attention_weights: int = Field(
        2_000_000, ge=1, le=_GIGABYTE, description="most numbers in one attention response"
    )
    max_connections: _CountOrAuto = Field(
        "auto", description="most connections; auto: by the limit of open files, at most 4096"
    )
    request_timeout: float = Field(
        10.0, gt=0, le=_DAY, description="seconds until a request is given up"
    )
    drain_seconds: float = Field(
        5.0, ge=0, le=_DAY, description="seconds of answering on after SIGTERM, not ready"
    )
    api_keys: Annotated[SecretStr | None, BeforeValidator(_blank_is_none)] = Field(
        None, description="API keys, separated by commas"
    )
    api_keys_file: _MaybePath = Field(
        None, description="file of API keys, KEY or NAME:KEY, one a line"
    )
    rate_limit: _MaybeRate = Field(
        None,
        description="most requests of one API key, or of one address if no keys are set, "
        "such as 600/minute",
    )
    token_quota: _MaybeRate = Field(
        None,
        description="most tokens through the network for one API key or address, "
        "such as 5000000/day",
    )
    metrics: Access = Field("open", description="GET /metrics: open, key (needs an API key) or off")
    docs: Access = Field(
        "open", description="GET /docs, /openapi.json and /problems: open, key or off"
    )
    page: Access = Field("open", description="GET /: open, key or off")
    compat: Annotated[frozenset[Family], NoDecode, BeforeValidator(_families)] = Field(
        cast("Any", "on"),
        validate_default=True,
        description="paths of other systems: on, off, or some of "
        f"{', '.join(FAMILIES)}, with commas between",
    )
    allowed_hosts: Annotated[_Names, NoDecode, _HOSTS] = Field(
        None,
        description="names in the header Host that are answered, separated by commas; "
        "*.example.org stands for all under it",
    )
    allowed_origins: Annotated[_Names, NoDecode, _ORIGINS] = Field(
        None, description="origins whose pages in a browser may ask, separated by commas"
    )
    trusted_proxies: Annotated[_Names, NoDecode, _NETWORKS] = Field(
        None,
        description="addresses and networks whose X-Forwarded-For names the client's address, "
        "separated by commas; * trusts all",
    )
    language_warning: Literal["on", "off"] = Field(
        "on",
        description="on or off: whether answers of a model that reads only English warn of other "
        "languages",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="json, text, or auto: text on a terminal"
    )


def name_of(field: str, options: Collection[str] = ()) -> str:
    """Names a setting as the user did: its option if it is among `options`, else its variable."""
    if field in options:
        return f"--{field.replace('_', '-')}"
    return PREFIX + field.upper()


def read_settings(options: Mapping[str, str]) -> tuple[Settings, list[str]]:
    """Reads all settings: options by their field names, the environment, the defaults.

    Returns them with all errors, one a line: wrong values and unknown variables with the prefix. A
    default replaces a wrong value, so that the others can still be checked.
    """
    errors = [_unknown(name) for name in os.environ if _is_unknown(name)]
    given: dict[str, Any] = {name: options[name] for name in options if name not in FORMER}
    try:
        return Settings(**given), errors
    except ValidationError as error:
        wrong = error.errors(include_url=False)
    for each in wrong:
        field = str(each["loc"][0])
        shown = "" if field == "api_keys" else f", got {each['input']!r}"
        errors.append(f"{name_of(field, options)}: {tell_fault(each)}{shown}")
        given[field] = Settings.model_fields[field].default
    return Settings(**given), errors


def former_settings(options: Collection[str]) -> list[str]:
    """Returns the names of the settings without effect that options or the environment give."""
    given = {name.upper() for name in os.environ}
    return [
        name_of(field, options)
        for field in FORMER
        if field in options or PREFIX + field.upper() in given
    ]


def _is_unknown(name: str) -> bool:
    upper = name.upper()
    return upper.startswith(PREFIX) and (
        upper.removeprefix(PREFIX).lower() not in {*Settings.model_fields, *FORMER}
    )


def _unknown(name: str) -> str:
    known = Settings.model_fields
    # Compared without the prefix, which all of them share.
    near = nearest(name.upper().removeprefix(PREFIX), known)
    hint = (
        f"did you mean {name_of(near)}?"
        if near is not None
        else f"known are {', '.join(name_of(field) for field in known)}"
    )
    return f"{name}: unknown setting; {hint}"
