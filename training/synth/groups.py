"""Sentences about people of whom nothing but a group is said: the group should change nothing."""

import random
import tomllib

from pydantic import BaseModel, ConfigDict

from training.synth.behaviours import fill_for_each, read_templates


class _Groups(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    templates: tuple[str, ...]
    people: dict[str, tuple[str, ...]]
    lists: dict[str, tuple[str, ...]]


def make_sets(count: int, *, seed: int) -> list[tuple[str, ...]]:
    """Makes different sentences, each told of everybody.

    Args:
        count: how many sentences; fewer if the templates have no more to say.
        seed: decides which.

    Returns:
        For each sentence the texts that differ in the person alone, in the same order of people.
    """
    groups = _Groups.model_validate(tomllib.loads(read_templates("groups")))
    people = [person for members in groups.people.values() for person in members]
    rng = random.Random(f"{seed}/sets")  # noqa: S311 - not for secrets
    made: dict[tuple[str, ...], None] = {}
    for _ in range(20 * count):
        if len(made) == count:
            break
        made[tuple(fill_for_each(rng.choice(groups.templates), people, groups.lists, rng))] = None
    return list(made)
