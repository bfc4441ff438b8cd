"""Finds out from OpenTelemetry's variables whether traces are wanted, and which values are wrong.

OpenTelemetry only warns of a wrong value and goes on with a default. Here it stops the start, as
for every other setting.
"""

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

from model.errors import install_hint

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"

_PREFIX = "OTEL_"
_DISABLED = "OTEL_SDK_DISABLED"
_EXPORTER = "OTEL_TRACES_EXPORTER"
_SAMPLER, _SAMPLER_ARG = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
_SAMPLERS = (
    *("always_on", "always_off", "traceidratio"),
    *("parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"),
)
_COUNTS = (
    *("OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"),
    "OTEL_BSP_EXPORT_TIMEOUT",
)
_MOST_SPANS, _LARGEST_BATCH = "2048", "512"  # the defaults of OpenTelemetry


def is_wanted(variables: Mapping[str, str]) -> bool:
    """Whether the variables of the environment ask for traces."""
    given = _given(variables)
    return (
        bool({ENDPOINT, TRACES_ENDPOINT} & set(given))
        and given.get(_DISABLED, "").lower() != "true"
        and given.get(_EXPORTER, "").lower() != "none"
    )


def find_errors(variables: Mapping[str, str]) -> list[str]:
    """Returns what keeps wanted traces from being sent, one error a line."""
    if not is_wanted(variables):
        return []
    given = _given(variables)
    return [*_missing(given), *_wrong(given)]


def _given(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: text.strip()
        for name, text in variables.items()
        if name.startswith(_PREFIX) and text.strip()
    }


def _missing(given: Mapping[str, str]) -> Iterator[str]:
    """Yields what is not installed; else what the packages themselves refuse."""
    try:
        importlib.import_module("service.tracing.export")
    except ValueError as error:  # a limit of spans, which the packages read when they are loaded
        yield str(error)
    except ModuleNotFoundError as error:
        name = TRACES_ENDPOINT if TRACES_ENDPOINT in given else ENDPOINT
        yield (
            f"{name}: {error.name} is not installed, which traces need: {install_hint('otel')}, "
            "or build the image with --build-arg EXTRA=otel; or unset the variable"
        )


def _wrong(given: Mapping[str, str]) -> Iterator[str]:
    for name in (ENDPOINT, TRACES_ENDPOINT):
        yield from _check(given, name, _is_url, "a URL, such as http://collector:4318")
    for signal in ("", "TRACES_"):
        name = f"OTEL_EXPORTER_OTLP_{signal}PROTOCOL"
        wanted = "http/protobuf, the one that is spoken here (collectors take it at port 4318)"
        yield from _check(given, name, ("http/protobuf",).__contains__, wanted)
        name = f"OTEL_EXPORTER_OTLP_{signal}COMPRESSION"
        yield from _check(given, name, _one_of("none", "gzip", "deflate"), "none, gzip or deflate")
        name = f"OTEL_EXPORTER_OTLP_{signal}TIMEOUT"
        yield from _check(given, name, _is_positive, "a number of seconds above 0")
    yield from _check(given, _EXPORTER, _one_of("otlp", "none"), "otlp or none")
    yield from _check(given, _SAMPLER, _one_of(*_SAMPLERS), f"one of {', '.join(_SAMPLERS)}")
    if given.get(_SAMPLER, "").lower().endswith("traceidratio"):
        yield from _check(given, _SAMPLER_ARG, _is_share, "a number from 0 to 1")
    wrong = [
        error for name in _COUNTS for error in _check(given, name, _is_count, "a number above 0")
    ]
    yield from wrong
    _, most, batch, _ = _COUNTS
    if not wrong and int(given.get(batch, _LARGEST_BATCH)) > int(given.get(most, _MOST_SPANS)):
        yield (
            f"{batch}: must not exceed {most}: {given.get(batch, _LARGEST_BATCH)} is more than "
            f"{given.get(most, _MOST_SPANS)}"
        )


def _check(
    given: Mapping[str, str], name: str, is_right: Callable[[str], bool], wanted: str
) -> Iterator[str]:
    if name in given and not is_right(given[name]):
        # A URL may hold a password.
        shown = "" if name in (ENDPOINT, TRACES_ENDPOINT) else f", got {given[name]!r}"
        yield f"{name}: must be {wanted}{shown}"


def _one_of(*names: str) -> Callable[[str], bool]:
    return lambda text: text.lower() in names


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _is_positive(text: str) -> bool:
    return 0 < _number(text) < math.inf


def _is_share(text: str) -> bool:
    return 0 <= _number(text) <= 1


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0
