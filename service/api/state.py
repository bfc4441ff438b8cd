"""Holds the parts of one application; `create_app` builds them."""

from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from model import Checkpoint
from service.http.gate import ApiKeys, Gate, MemoryWatch
from service.http.middleware import Lifecycle
from service.http.rate_limit import RateLimit
from service.http.response_budget import ResponseBudget
from service.metrics import Metrics
from service.queue.engine import Engine
from service.queue.preparing import Preparer
from service.settings import Settings


@dataclass(frozen=True, slots=True)
class State:
    """The parts of a running service; schemas look up in `limits` what a request may name."""

    settings: Settings
    checkpoint: Checkpoint
    limits: dict[str, object]
    api_keys: ApiKeys
    engine: Engine
    lifecycle: Lifecycle
    metrics: Metrics
    gate: Gate
    budget: ResponseBudget
    memory: MemoryWatch
    preparer: Preparer
    requests: RateLimit | None
    tokens: RateLimit | None


def request_limits(settings: Settings, checkpoint: Checkpoint) -> dict[str, object]:
    """Returns what a request may name, as the schemas look it up."""
    config = checkpoint.config
    return {
        "max_sentences": settings.max_sentences,
        "max_length": checkpoint.manifest.max_length,
        "labels": config.labels,
        "layers": config.num_layers,
        "heads": config.num_heads,
    }


def state_of(request: Request) -> State:
    """Returns the parts of the service that answers a request."""
    return cast("State", request.app.state.headlight)
