"""What one application holds: built once in `create_app`, asked for by the routes."""

from dataclasses import dataclass

from model import Checkpoint
from service.http.access import ApiKeys
from service.http.gate import Gate
from service.http.lifecycle import Lifecycle
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
        gate: refuses what has no room before it becomes a request.
    """

    settings: Settings
    checkpoint: Checkpoint
    api_keys: ApiKeys
    engine: Engine
    lifecycle: Lifecycle
    metrics: Metrics
    gate: Gate
