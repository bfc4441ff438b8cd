"""Defines the loads that servers are measured under."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["sentences", "reviews"]


@dataclass(frozen=True, slots=True)
class Closed:
    """Connections that send their next request when the previous one is answered.

    Args:
        name: in the table.
        connections: number of concurrent connections.
        sentences: in one request.
        texts: which texts are sent.
        route: that the requests ask.
    """

    name: str
    connections: int
    sentences: int = 1
    texts: Kind = "sentences"
    route: Literal["predict", "attention"] = "predict"


@dataclass(frozen=True, slots=True)
class Mixed:
    """Short texts, first alone and then beside long ones.

    Args:
        name: in the table.
        short: the load that is measured.
        long: the load beside it.
    """

    name: str
    short: Closed
    long: Closed


@dataclass(frozen=True, slots=True)
class Open:
    """Requests of one sentence at a fixed rate, whether or not earlier ones are answered.

    Args:
        name: in the table.
        share: of the rate that the server reached under `of`.
        of: name of a closed load.
    """

    name: str
    share: float
    of: str


Load = Closed | Mixed | Open


def limiting(load: Load) -> Kind | None:
    """Returns the texts to ask the model alone; None if the comparison means nothing."""
    return load.texts if isinstance(load, Closed) and load.route == "predict" else None


LOADS: tuple[Load, ...] = (
    Closed("1 sentence, 1 connection", 1),
    Closed("1 sentence, 64 connections", 64),
    Closed("32 sentences, 4 connections", 4, sentences=32),
    Closed("1 review, 8 connections", 8, texts="reviews"),
    Closed("attention, 8 connections", 8, route="attention"),
    Mixed(
        "short beside long",
        Closed("1 sentence, 8 connections", 8),
        Closed("1 review, 4 connections", 4, texts="reviews"),
    ),
    Open("half of saturation", 0.5, "1 sentence, 64 connections"),
    Open("90 % of saturation", 0.9, "1 sentence, 64 connections"),
)
# The one that sends most texts is last, so that no other load asks them again.
GPU_LOADS: tuple[Load, ...] = (
    Closed("1 sentence, 1 connection", 1),
    Closed("1 sentence, 64 connections", 64),
    Closed("1 sentence, 1024 connections", 1024),
    Closed("attention, 8 connections", 8, route="attention"),
    Closed("256 sentences, 8 connections", 8, sentences=256),
)
