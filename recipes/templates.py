"""Makes sentences from templates with gaps: labelled ones, and equal ones about different people.

They cover what sentence classifiers are known to get wrong: near and far negation, a change of
mind, whose opinion it is, answers to questions. Ribeiro et al. 2020, "Beyond accuracy: behavioral
testing of NLP models with CheckList", names these; the words here are our own.
"""

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

_RULES = Path(__file__).parent / "rules"
_GAP = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])(?!use)")
_TWO_ARTICLES = re.compile(r"\b(?:an?|the) (?=an? )", re.IGNORECASE)
_SENTENCE_START = re.compile(r"(?:^|(?<=[.?!] ))\w")


class _StrictModel(BaseModel):
    """A table of a file of templates, which holds nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Kind(_StrictModel):
    """Templates of one kind of sentence; `sure`: the positive and negative are never neutral."""

    name: str
    sure: bool = False
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    neutral: tuple[str, ...] = ()

    @property
    def by_label(self) -> Sequence[tuple[bool | None, Sequence[str]]]:
        """The templates with their label, as `Example` has it; labels without any are left out."""
        every = ((True, self.positive), (False, self.negative), (None, self.neutral))
        return [(label, templates) for label, templates in every if templates]


class _Templates(_StrictModel):
    lists: dict[str, tuple[str, ...]]
    kinds: tuple[_Kind, ...]


class _Groups(_StrictModel):
    templates: tuple[str, ...]
    people: dict[str, tuple[str, ...]]
    lists: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Example:
    """A sentence made by rule; `positive` is None if it is neither positive nor negative.

    `sure`: a class between the two is wrong for it.
    """

    kind: str
    text: str
    positive: bool | None
    sure: bool = False


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_RULES / f"{name}.toml").read_text(encoding="utf-8-sig"))


def make_examples(count: int, *, seed: int, name: str = "behaviours") -> list[Example]:
    """Makes different sentences, equally many of each kind and label; fewer if they run out."""
    templates = _Templates.model_validate(_read(name))
    rng = random.Random(f"{seed}/{name}")  # noqa: S311 - not for secrets
    share = count // sum(len(kind.by_label) for kind in templates.kinds)
    examples = []
    for kind in templates.kinds:
        for positive, sentences in kind.by_label:
            texts: dict[str, None] = {}
            for _ in range(20 * share):
                if len(texts) == share:
                    break
                texts[fill(rng.choice(sentences), templates.lists, rng)] = None
            examples += [Example(kind.name, text, positive, kind.sure) for text in texts]
    return examples


def read_examples(name: str) -> list[Example]:
    """Reads the sentences of a file whose templates have no gaps."""
    return [
        Example(kind.name, text, positive, kind.sure)
        for kind in _Templates.model_validate(_read(name)).kinds
        for positive, sentences in kind.by_label
        for text in sentences
    ]


def make_group_sets(count: int, *, seed: int) -> list[tuple[str, ...]]:
    """Makes sets of sentences that differ only in the group of people that they name.

    The group should not change what a network predicts. Each set has the same order of people.
    """
    groups = _Groups.model_validate(_read("groups"))
    people = [person for members in groups.people.values() for person in members]
    rng = random.Random(f"{seed}/sets")  # noqa: S311 - not for secrets
    sets: dict[tuple[str, ...], None] = {}
    for _ in range(20 * count):
        if len(sets) == count:
            break
        sets[tuple(fill_for_each(rng.choice(groups.templates), people, groups.lists, rng))] = None
    return list(sets)


def fill(template: str, lists: Mapping[str, Sequence[str]], rng: random.Random) -> str:
    """Fills the gaps of a template."""
    filled = _GAP.sub(lambda gap: rng.choice(lists[gap[1]]), template)
    # Drops an "a" before another article, and turns it to "an" before a vowel.
    filled = _TWO_ARTICLES.sub("", filled)
    filled = _ARTICLE.sub(lambda match: f"{match[1]}n ", filled)
    return _SENTENCE_START.sub(lambda match: match[0].upper(), filled)


def fill_for_each(
    template: str, people: Sequence[str], lists: Mapping[str, Sequence[str]], rng: random.Random
) -> list[str]:
    """Makes one sentence for each of several people, with nothing else that differs."""
    sentence = fill(template.replace("{who}", "\0"), lists, rng)
    texts = [sentence.replace("\0", person) for person in people]
    return [text[0].upper() + text[1:] for text in texts]
