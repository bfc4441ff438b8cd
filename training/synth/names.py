"""Fills the gaps of masked names with given names of many cultures."""

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
_MASK = re.compile(r"\[NAME\]")


def fill_masked_names(texts: Sequence[str], *, share: float, seed: int) -> tuple[str, ...]:
    """Writes given names for `[NAME]`, by which some data sets hide who was named.

    Args:
        texts: of the training rows.
        share: of those with a mask that are filled. The others keep their masks.
        seed: decides which, and by what names.
    """
    rng = random.Random(f"{seed}/names")  # noqa: S311 - not for secrets
    return tuple(
        _MASK.sub(lambda _: rng.choice(GIVEN_NAMES), text)
        if "[NAME]" in text and rng.random() < share
        else text
        for text in texts
    )
