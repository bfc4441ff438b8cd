"""Sends spans to a collector in the background, and logs one line a minute if that fails.

Imported only if traces are wanted: it needs the extra `otel`. The standard variables of
OpenTelemetry set everything but the names.
"""

import logging
import os
import threading
import time
from collections.abc import Mapping

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Tracer

logger = logging.getLogger("headlight.tracing")

# How long the end of the process waits for the last spans.
FLUSH_SECONDS = 2.0
_LOG_SECONDS = 60.0
_PACKAGE = "opentelemetry"
# The messages of these name only the network and the collector.
_OF_EXPORT = f"{_PACKAGE}.exporter"
_OF_SENDING = (_OF_EXPORT, f"{_PACKAGE}.sdk")


class Export:
    """Collects the spans of a process, which `tracer` makes, and sends them until `close`.

    `described` are attributes of all spans; those of OpenTelemetry's variables replace them.
    """

    def __init__(self, described: Mapping[str, str]) -> None:
        package = logging.getLogger(_PACKAGE)
        package.handlers, package.propagate = [SparingHandler()], False
        # A variable that is set to nothing counts as not set.
        for name in [name for name in os.environ if name.startswith("OTEL_")]:
            if not os.environ[name].strip():
                del os.environ[name]
        named = OTELResourceDetector().detect().attributes
        kept = {key: text for key, text in described.items() if key not in named}
        self._provider = TracerProvider(resource=Resource.create(kept), shutdown_on_exit=False)
        self._exporter: SpanExporter = OTLPSpanExporter()
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self.tracer: Tracer = self._provider.get_tracer("headlight", described["service.version"])

    def close(self) -> bool:
        """Sends the last spans; returns False if the collector takes too long."""
        # It waits for half a minute if it must.
        last = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        last.start()
        last.join(FLUSH_SECONDS)
        if not last.is_alive():
            return True
        self._exporter.shutdown()  # or it tries again for as long as it may
        logger.warning("the last spans were not sent in time", extra={"seconds": FLUSH_SECONDS})
        return False


def describe(version: str, model: str, model_version: str, device: str) -> dict[str, str]:
    """Returns the attributes of all spans: versions of service and model, and the device."""
    return {
        SERVICE_NAME: "headlight",
        "service.version": version,
        "headlight.model.name": model,
        "headlight.model.version": model_version,
        "headlight.device": device,
    }


class SparingHandler(logging.Handler):
    """Passes on one record a minute about sending and one about the rest.

    Nothing that a user could have sent is passed on. A client whose headers are wrong must not hide
    that the collector is away.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._next = {True: 0.0, False: 0.0}  # by whether it is about sending
        self._left_out = {True: 0, False: 0}

    def emit(self, record: logging.LogRecord) -> None:
        """Logs what a package of OpenTelemetry reports, or counts it."""
        now, sends = time.monotonic(), record.name.startswith(_OF_SENDING)
        if now < self._next[sends]:
            self._left_out[sends] += 1
            return
        left_out, self._left_out[sends] = self._left_out[sends], 0
        self._next[sends] = now + _LOG_SECONDS
        logger.warning(
            "traces could not be sent", extra={"reason": _reason(record), "left_out": left_out}
        )


def _reason(record: logging.LogRecord) -> str:
    """Returns what happened; of what is not about the network only the constant part."""
    template = str(record.msg)
    if not record.name.startswith(_OF_EXPORT) or not isinstance(record.args, tuple):
        return template
    try:
        return template % tuple(map(_shown, record.args))
    except (TypeError, ValueError):
        return template


def _shown(part: object) -> object:
    """Returns a part of a message; of an error its first cause, as its own holds the URL."""
    if not isinstance(part, BaseException):
        return part
    error = part
    while (before := error.__cause__ or error.__context__) is not None:
        error = before
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__
