"""Defines the loads, and the figures that each of them gives."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Load:
    """One way to ask a server.

    A closed-loop load has connections that send their next request when the last one is answered.
    An open-loop load sends requests at a fixed rate, a `share` of the rate under `SATURATION`,
    whether or not earlier ones are answered.
    """

    name: str
    connections: int = 1
    sentences: int = 1
    route: Literal["predict", "attention"] = "predict"
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Sentences answered per second, latencies in seconds, and answered requests."""

    rate: float
    p50: float
    p99: float
    requests: int


SATURATION = Load("1 sentence, 64 connections", 64)


def loads(device: str) -> tuple[Load, ...]:
    """Returns the loads for a device; the one that sends most texts is last."""
    bulk = {
        "cpu": Load("32 sentences, 4 connections", 4, sentences=32),
        "cuda": Load("256 sentences, 8 connections", 8, sentences=256),
    }
    return (
        Load("1 sentence, 1 connection", 1),
        SATURATION,
        Load("90 % of saturation", share=0.9),
        Load("attention, 8 connections", 8, route="attention"),
        bulk[device],
    )
