"""Defines the loads and their texts."""

import itertools
from dataclasses import dataclass
from typing import Literal

_OPENINGS = (
    "The plot drags",
    "I liked the first hour",
    "Nobody in the cast can act",
    "The battery lasts for two days",
    "Our waiter was friendly and quick",
    "The book tells the same joke over and over again",
    "It broke within a week",
    "The camera finds beauty in the plainest rooms",
    "They never answered my letter",
    "We had been looking forward to this for months",
)
_JOINTS = ("but", "and", "although", "while")
_ENDINGS = (
    "the rest is superb.",
    "I would not go there again.",
    "my children want nothing else now.",
    "the price is far too high for what you get, even in a sale.",
    "it is worth every minute.",
)
SENTENCES = tuple(
    f"{opening}, {joint} {ending}"
    for opening, joint, ending in itertools.product(_OPENINGS, _JOINTS, _ENDINGS)
)
"""200 sentences from templates."""


@dataclass(frozen=True, slots=True)
class Load:
    """One way to ask a server: connections that send their next request once they are answered."""

    name: str
    connections: int = 1
    sentences: int = 1
    route: Literal["predict", "attention"] = "predict"


@dataclass(frozen=True, slots=True)
class Figures:
    """Sentences answered per second, latencies in seconds, and answered requests."""

    rate: float
    p50: float
    p99: float
    requests: int


_SINGLE = Load("1 sentence, 1 connection")
_MANY = Load("1 sentence, 64 connections", 64)
_ATTENTION = Load("attention, 8 connections", 8, route="attention")
LOADS = {
    "servers": (_SINGLE, _MANY, _ATTENTION, Load("32 sentences, 4 connections", 4, sentences=32)),
    "gpu": (
        _SINGLE,
        _MANY,
        Load("1 sentence, 256 connections", 256),
        Load("32 sentences, 8 connections", 8, sentences=32),
        Load("32 sentences, 32 connections", 32, sentences=32),
        _ATTENTION,
    ),
}
"""The loads by what is measured."""
