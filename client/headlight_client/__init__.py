"""Asks a Headlight service for labels, probabilities and attention weights."""

from headlight_client.answers import (
    FieldError,
    ItemError,
    Metric,
    ModelInfo,
    ModelName,
    Prediction,
    Problem,
    Sentence,
    Threshold,
    Thresholds,
    Token,
)
from headlight_client.arrays import (
    Attention,
    AttentionSteps,
    Attributions,
    Importance,
    Thumbnails,
    Unit,
)
from headlight_client.client import AsyncClient, Client
from headlight_client.errors import (
    FailedPart,
    HeadlightError,
    InvalidRequestError,
    NoAnswerError,
    ProblemError,
    ServiceTimedOutError,
    TimedOutError,
    UnauthorizedError,
    UnavailableError,
    UnexpectedAnswerError,
)
from headlight_client.plot import plot_heads
from headlight_client.tables import Predictions
from headlight_client.version import __version__

__all__ = [
    "AsyncClient",
    "Attention",
    "AttentionSteps",
    "Attributions",
    "Client",
    "FailedPart",
    "FieldError",
    "HeadlightError",
    "Importance",
    "InvalidRequestError",
    "ItemError",
    "Metric",
    "ModelInfo",
    "ModelName",
    "NoAnswerError",
    "Prediction",
    "Predictions",
    "Problem",
    "ProblemError",
    "Sentence",
    "ServiceTimedOutError",
    "Threshold",
    "Thresholds",
    "Thumbnails",
    "TimedOutError",
    "Token",
    "UnauthorizedError",
    "UnavailableError",
    "UnexpectedAnswerError",
    "Unit",
    "__version__",
    "plot_heads",
]
