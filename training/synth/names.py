"""Swaps names of people and places, and fills the gaps of masked names."""

import random
import re
from collections.abc import Sequence

GIVEN_NAMES = (
    "Aisha", "Akira", "Alejandra", "Amara", "Amit", "Ana", "Anna", "Antoine", "Ayşe", "Ben",
    "Carlos", "Chidi", "Chloe", "Dariusz", "David", "Dmitri", "Emily", "Emre", "Fatima", "Femi",
    "Giulia", "Grace", "Hana", "Hassan", "Ingrid", "Ivan", "Jack", "Jamal", "Jin", "Joanna",
    "José", "Kaveh", "Keisha", "Kenji", "Lakshmi", "Lars", "Leila", "Liam", "Lucía", "Mahmoud",
    "Malik", "María", "Mei", "Mia", "Mohammed", "Ngozi", "Nia", "Nikos", "Noah", "Olga", "Olumide",
    "Paolo", "Parisa", "Pedro", "Priya", "Rachel", "Rahul", "Ravi", "Rosa", "Ruth", "Sanjay",
    "Sarah", "Siobhan", "Sofia", "Sunita", "Tariq", "Thabo", "Tom", "Wei", "Xiao", "Yasmin",
    "Yuki", "Yusuf", "Zanele", "Zoe",
)  # fmt: skip
PLACES = (
    "Accra", "Austin", "Bangkok", "Berlin", "Bogotá", "Boston", "Cairo", "Cape Town", "Chicago",
    "Dallas", "Delhi", "Denver", "Dubai", "Dublin", "Hanoi", "Houston", "Istanbul", "Jakarta",
    "Karachi", "Kyiv", "Lagos", "Leeds", "Lima", "Lisbon", "London", "Madrid", "Manila", "Miami",
    "Milan", "Mumbai", "Nairobi", "New York", "Osaka", "Oslo", "Paris", "Prague", "Rome", "Seattle",
    "Seoul", "Sydney", "Tehran", "Tokyo", "Toronto", "Vienna", "Warsaw",
)  # fmt: skip
_KINDS = (GIVEN_NAMES, PLACES)
_KNOWN = re.compile(rf"\b(?:{'|'.join((*GIVEN_NAMES, *PLACES))})\b")
_MASK = re.compile(r"\[NAME\]")


def swap_names(text: str, rng: random.Random) -> str:
    """Puts another given name for each known one, and another place for each known place."""
    chosen = {kind[0]: rng.choice(kind) for kind in _KINDS}
    return _KNOWN.sub(
        lambda found: next(chosen[kind[0]] for kind in _KINDS if found[0] in kind), text
    )


def fill_masked_names(texts: Sequence[str], *, share: float, seed: int) -> tuple[str, ...]:
    """Writes given names for `[NAME]`, by which some data sets hide who was named."""
    rng = random.Random(f"{seed}/names")  # noqa: S311 - not for secrets
    return tuple(
        _MASK.sub(lambda _: rng.choice(GIVEN_NAMES), text)
        if "[NAME]" in text and rng.random() < share
        else text
        for text in texts
    )
