"""Probes how a model behaves, by sentences of known label and by changed texts.

After Ribeiro et al. 2020, "Beyond accuracy: behavioral testing of NLP models with CheckList":
sentences made so that their label is known, and changes that must not change the answer. All
words are our own.

Legend: N texts, C classes.
"""

import itertools
import random
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from training.synth.augment import (
    add_emoji,
    add_link,
    add_typo,
    change_case,
    contract,
    drop_apostrophes,
    drop_marks,
    elongate,
)
from training.synth.names import swap_names
from training.synth.templates import Kind, StrictModel, fill, fill_for_each, read_templates

Answers = Callable[[Sequence[str]], NDArray[np.float64]]
_CHANGES: Mapping[str, Callable[[str, random.Random], str]] = {
    "a slip of the finger": add_typo,
    "capitals": change_case,
    "apostrophes": drop_apostrophes,
    "short and long forms": contract,
    "a link or a name": add_link,
    "drawn-out words": elongate,
    "commas and full stops": drop_marks,
    "an emoji without sentiment": add_emoji,
    "another person or place": swap_names,
}
_OF_EACH_KIND = 200
_OF_EACH_SWAP = 40


class _Swap(StrictModel):
    name: str
    templates: tuple[str, ...]
    groups: dict[str, tuple[str, ...]]


class _Pairs(StrictModel):
    name: str
    positive: tuple[tuple[str, str], ...]
    negative: tuple[tuple[str, str], ...]


class _Probes(StrictModel):
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
        shift: for a change or a group, the mean probability that moves from some classes to others;
            else None.
        lean: for a group, the mean change of the positive class's probability, with its sign; None
            if no class is the positive one.
    """

    test: str
    name: str
    rows: int
    passed: int
    shift: float | None = None
    lean: float | None = None


@dataclass(frozen=True, slots=True)
class Poles:
    """The indices of two classes among all, and of the one between them."""

    negative: int
    positive: int
    neutral: int | None = None


def find_poles(labels: Sequence[str]) -> Poles | None:
    """Finds the negative and the positive class by their names."""
    names = [label.casefold() for label in labels]
    if "negative" in names and "positive" in names:
        neutral = names.index("neutral") if "neutral" in names else None
        return Poles(names.index("negative"), names.index("positive"), neutral)
    return Poles(0, 1) if len(labels) == 2 else None


def probe(
    answers: Answers, texts: Sequence[str], *, poles: Poles | None = Poles(0, 1), seed: int = 0
) -> list[Probe]:
    """Runs all tests that the classes allow.

    Args:
        answers: gives the probabilities of texts, [N, C].
        poles: the classes of sentences of known label; None: such sentences are left out.
    """
    probes = _Probes.model_validate(tomllib.loads(read_templates("probes")))
    results = []
    if poles is not None:
        for kind in probes.kinds:
            results.append(_ask_kind(answers, kind, probes.lists, _rng(seed, kind.name), poles))
        results += [
            _ask_said(answers, kind, poles)
            for kind in probes.said
            if kind.positive or poles.neutral is not None
        ]
    for pairs in probes.pairs:
        results += _ask_pairs(answers, pairs, poles)
    for swap in probes.swaps:
        results += _ask_swap(answers, swap, probes.lists, _rng(seed, swap.name), poles)
    before = answers(texts)
    for name, change in _CHANGES.items():
        rng = _rng(seed, name)
        changed = [change(text, rng) for text in texts]
        indices = [index for index, text in enumerate(texts) if changed[index] != text]
        after = answers([changed[index] for index in indices])
        results.append(_change(name, before[indices], after))
    return results


def _rng(seed: int, name: str) -> random.Random:
    """Gives each test its own generator, so that a new test changes no other."""
    return random.Random(f"{seed}/probe/{name}")  # noqa: S311 - not for secrets


def _ask_kind(
    answers: Answers,
    kind: Kind,
    lists: Mapping[str, Sequence[str]],
    rng: random.Random,
    poles: Poles,
) -> Probe:
    truth: dict[str, int] = {}
    for pole, templates in ((poles.positive, kind.positive), (poles.negative, kind.negative)):
        for _ in range(_OF_EACH_KIND // 2):
            truth[fill(rng.choice(templates), lists, rng)] = pole
    return _judge(answers, kind.name, truth)


def _ask_said(answers: Answers, kind: Kind, poles: Poles) -> Probe:
    truth = dict.fromkeys(kind.positive, poles.positive)
    truth |= dict.fromkeys(kind.negative, poles.negative)
    if poles.neutral is not None:
        truth |= dict.fromkeys(kind.neutral, poles.neutral)
    return _judge(answers, kind.name, truth)


def _judge(answers: Answers, name: str, truth: Mapping[str, int]) -> Probe:
    right = answers(list(truth)).argmax(axis=1) == np.array(list(truth.values()))
    return Probe("label", name, len(truth), int(right.sum()))


def _ask_pairs(answers: Answers, pairs: _Pairs, poles: Poles | None) -> list[Probe]:
    """Asks both wordings of each pair: are they right, and are they alike?"""
    every = [*pairs.positive, *pairs.negative]
    plain = answers([one for one, _ in every])
    other = answers([other for _, other in every])
    alike = _change(pairs.name, plain, other)
    if poles is None:
        return [alike]
    truth = [poles.positive] * len(pairs.positive) + [poles.negative] * len(pairs.negative)
    right = other.argmax(axis=1) == np.array(truth)
    return [Probe("label", pairs.name, len(every), int(right.sum())), alike]


def _ask_swap(
    answers: Answers,
    swap: _Swap,
    lists: Mapping[str, Sequence[str]],
    rng: random.Random,
    poles: Poles | None,
) -> list[Probe]:
    """Compares each member with the first, and each group with the mean of all members."""
    everyone = list(itertools.chain.from_iterable(swap.groups.values()))
    texts = []
    for _ in range(_OF_EACH_SWAP):
        texts += fill_for_each(rng.choice(swap.templates), everyone, lists, rng)
    probabilities = answers(texts)
    values = probabilities.reshape(_OF_EACH_SWAP, len(everyone), -1)  # [sentences, members, C]
    first = np.broadcast_to(values[:, :1], values[:, 1:].shape)
    results = [_change(swap.name, _rows(first), _rows(values[:, 1:]))]
    mean = values.mean(axis=1, keepdims=True)
    start = 0
    for group, members in swap.groups.items():
        own = values[:, start : start + len(members)]
        start += len(members)
        change = _change(
            f"{swap.name}: {group.replace('_', ' ')}",
            _rows(np.broadcast_to(mean, own.shape)),
            _rows(own),
        )
        lean = None if poles is None else float((own - mean)[:, :, poles.positive].mean())
        results.append(replace(change, test="group", lean=lean))
    return results


def _rows(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values.reshape(-1, values.shape[-1])  # [N, C]


def _change(name: str, before: NDArray[np.float64], after: NDArray[np.float64]) -> Probe:
    same = before.argmax(axis=1) == after.argmax(axis=1)
    # What some classes lose, others gain: half of the sum is what moves.
    shift = float(np.abs(before - after).sum(axis=1).mean() / 2) if len(same) else 0.0
    return Probe("change", name, len(same), int(same.sum()), shift)
