"""Probes how a model behaves, by sentences of known label and by changed texts.

After Ribeiro et al. 2020, "Beyond accuracy: behavioral testing of NLP models with CheckList":
sentences made so that their label is known, and changes that must not change the answer. All
words are our own.
"""

import itertools
import random
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from training.synth.augment import add_link, add_typo, change_case, contract, drop_apostrophes
from training.synth.templates import Kind, fill, fill_for_each, read_templates

Answers = Callable[[Sequence[str]], NDArray[np.float64]]
_CHANGES: Mapping[str, Callable[[str, random.Random], str]] = {
    "a slip of the finger": add_typo,
    "capitals": change_case,
    "apostrophes": drop_apostrophes,
    "short and long forms": contract,
    "a link or a name": add_link,
}
_OF_EACH_KIND = 200
_OF_EACH_SWAP = 40


class _Swap(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    templates: tuple[str, ...]
    groups: dict[str, tuple[str, ...]]


class _Pairs(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    positive: tuple[tuple[str, str], ...]
    negative: tuple[tuple[str, str], ...]


class _Probes(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    lists: dict[str, tuple[str, ...]]
    kinds: tuple[Kind, ...]
    said: tuple[Kind, ...]
    swaps: tuple[_Swap, ...]
    pairs: tuple[_Pairs, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of one test.

    Args:
        test: `label` (is the answer right), `change` (does it stay), or `group` (is a group of
            people treated as the mean of all).
        name: of the capability or the change.
        rows: number of sentences or pairs.
        passed: how many were right or stayed.
        shift: of a change or a group, the mean absolute change of the positive class's
            probability; else None.
        lean: of a group, the mean change with its sign: above 0 if the group makes sentences
            more positive.
    """

    test: str
    name: str
    rows: int
    passed: int
    shift: float | None = None
    lean: float | None = None


def probe(answers: Answers, texts: Sequence[str], *, seed: int = 0) -> list[Probe]:
    """Runs all tests.

    Args:
        answers: gives the probability of the positive class of each text, [N].
        texts: real ones, which are changed.
        seed: decides which sentences are made.
    """
    probes = _Probes.model_validate(tomllib.loads(read_templates("probes")))
    found = [_ask_kind(answers, kind, probes.lists, _rng(seed, kind.name)) for kind in probes.kinds]
    found += [_ask_said(answers, kind) for kind in probes.said]
    for pairs in probes.pairs:
        found += _ask_pairs(answers, pairs)
    for swap in probes.swaps:
        found += _ask_swap(answers, swap, probes.lists, _rng(seed, swap.name))
    before = answers(texts)
    for name, change in _CHANGES.items():
        rng = _rng(seed, name)
        changed = [change(text, rng) for text in texts]
        places = [at for at, text in enumerate(texts) if changed[at] != text]
        after = answers([changed[at] for at in places])
        found.append(_change(name, before[places], after))
    return found


def _rng(seed: int, name: str) -> random.Random:
    """Gives each test its own generator, so that a new test changes no other."""
    return random.Random(f"{seed}/probe/{name}")  # noqa: S311 - not for secrets


def _ask_kind(
    answers: Answers, kind: Kind, lists: Mapping[str, Sequence[str]], rng: random.Random
) -> Probe:
    made: dict[str, bool] = {}
    for positive, templates in ((True, kind.positive), (False, kind.negative)):
        for _ in range(_OF_EACH_KIND // 2):
            made[fill(rng.choice(templates), lists, rng)] = positive
    return _judge(answers, kind.name, made)


def _ask_said(answers: Answers, kind: Kind) -> Probe:
    said = dict.fromkeys(kind.positive, True) | dict.fromkeys(kind.negative, False)
    return _judge(answers, kind.name, said)


def _judge(answers: Answers, name: str, truth: Mapping[str, bool]) -> Probe:
    right = (answers(list(truth)) >= 0.5) == np.array(list(truth.values()))
    return Probe("label", name, len(truth), int(right.sum()))


def _ask_pairs(answers: Answers, pairs: _Pairs) -> list[Probe]:
    """Asks both wordings of each pair: are they right, and are they alike?"""
    every = [*pairs.positive, *pairs.negative]
    truth = np.array([True] * len(pairs.positive) + [False] * len(pairs.negative))
    plain = answers([one for one, _ in every])
    other = answers([other for _, other in every])
    right = (other >= 0.5) == truth
    return [
        Probe("label", pairs.name, len(every), int(right.sum())),
        _change(pairs.name, plain, other),
    ]


def _ask_swap(
    answers: Answers, swap: _Swap, lists: Mapping[str, Sequence[str]], rng: random.Random
) -> list[Probe]:
    """Compares each member with the first, and each group with the mean of all members."""
    everyone = list(itertools.chain.from_iterable(swap.groups.values()))
    said = []
    for _ in range(_OF_EACH_SWAP):
        said += fill_for_each(rng.choice(swap.templates), everyone, lists, rng)
    values = answers(said).reshape(_OF_EACH_SWAP, len(everyone))  # [sentences, members]
    first = np.broadcast_to(values[:, :1], values[:, 1:].shape)
    found = [_change(swap.name, first.ravel(), values[:, 1:].ravel())]
    mean = values.mean(axis=1, keepdims=True)
    start = 0
    for group, members in swap.groups.items():
        own = values[:, start : start + len(members)]
        start += len(members)
        change = _change(
            f"{swap.name}: {group.replace('_', ' ')}",
            np.broadcast_to(mean, own.shape).ravel(),
            own.ravel(),
        )
        found.append(replace(change, test="group", lean=float((own - mean).mean())))
    return found


def _change(name: str, before: NDArray[np.float64], after: NDArray[np.float64]) -> Probe:
    same = (before >= 0.5) == (after >= 0.5)
    shift = float(np.abs(before - after).mean()) if len(same) else 0.0
    return Probe("change", name, len(same), int(same.sum()), shift)
