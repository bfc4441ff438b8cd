"""Holds the parts of one application: `create_app` builds them, the routes ask for them."""

from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from model import Checkpoint
from service.http.access import ApiKeys
from service.http.gate import Gate
from service.http.lifecycle import Lifecycle
from service.http.memory_watch import MemoryWatch
from service.http.rate_limit import RateLimit
from service.http.response_budget import SendingLimit
from service.inference.engine import Engine
from service.metrics import Metrics
from service.settings import Settings


@dataclass(frozen=True, slots=True)
class State:
    """The parts of a running service.

    Args:
        settings: as they were at the start.
        checkpoint: the folder that is served, found sound.
        api_keys: who may come in.
        engine: the model and its queue.
        lifecycle: whether the process drains or ends.
        metrics: what is counted.
        gate: refuses a request that has no room before it is read.
        sending: the room of large answers.
        memory: how full the memory is.
        requests: how many a client may send; None: any number.
        tokens: how many of a client may go through the network; None: any number.
    """

    settings: Settings
    checkpoint: Checkpoint
    api_keys: ApiKeys
    engine: Engine
    lifecycle: Lifecycle
    metrics: Metrics
    gate: Gate
    sending: SendingLimit
    memory: MemoryWatch
    requests: RateLimit | None
    tokens: RateLimit | None

    @property
    def limits(self) -> dict[str, object]:
        """What a request may name, by the settings and the model; schemas look it up."""
        config = self.checkpoint.config
        return {
            "max_sentences": self.settings.max_sentences,
            "max_length": self.checkpoint.manifest.max_length,
            "labels": config.labels,
            "layers": config.num_layers,
            "heads": config.num_heads,
        }


def state_of(request: Request) -> State:
    """The parts of the service that answers a request."""
    return cast("State", request.app.state.headlight)
