"""Draws the rows of a stage from the sources of a plan, and adds what the teacher says.

Legend: N rows, C classes.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.errors import RecipeError
from training.plan.plan import StageRows
from training.synth.augment import perturb_share, undo_penn_in_share
from training.synth.templates import make_examples, make_group_sets

Targets = NDArray[np.float32]
_SENTENCE = re.compile(r"[^.!?]+[.!?]+[\"')\]]*")
_FEWEST_WORDS, _MOST_WORDS = 4, 40
_TWO = 2
_TOLD_OF_EACH = 4


@dataclass(frozen=True, slots=True)
class Pool:
    """The rows that stages draw from.

    Args:
        texts: of each source.
        label_ids: of each labelled source; 0: negative, 1: positive.
    """

    texts: Mapping[str, Sequence[str]]
    label_ids: Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class SoftDataset:
    """Texts with soft targets.

    Args:
        texts: N texts.
        targets: probabilities of the classes [N, C].
    """

    texts: tuple[str, ...]
    targets: Targets


def draw_rows(
    pool: Pool,
    rows: StageRows,
    *,
    undo_penn_share: float,
    seed: int,
    teach: Callable[[Sequence[str]], Targets] | None,
    fits_teacher: Callable[[str], bool] | None = None,
) -> SoftDataset:
    """Draws the rows of a stage.

    Args:
        pool: the sources.
        rows: what the stage learns from.
        undo_penn_share: share of the texts in the Penn style that are rewritten.
        seed: decides which rows.
        teach: returns the teacher's probabilities of texts; None without a teacher.
        fits_teacher: whether the teacher can read a whole text.

    Raises:
        RecipeError: there are no rows.
    """
    rng = random.Random(f"{seed}/rows")  # noqa: S311 - not for secrets
    texts: list[str] = []
    label_ids: list[int] = []
    for name, passes in rows.passes.items():
        for at in _places(len(pool.texts[name]), passes, rng):
            texts.append(pool.texts[name][at])
            label_ids.append(pool.label_ids[name][at])
    texts = list(undo_penn_in_share(texts, share=undo_penn_share, seed=seed))
    targets = np.eye(_TWO, dtype=np.float32)[label_ids]  # [N, C]
    if rows.soft and teach is not None and fits_teacher is not None:
        short = [at for at, text in enumerate(texts) if fits_teacher(text)]
        taught = teach([texts[at] for at in short])
        targets[short] = rows.soft * taught + (1.0 - rows.soft) * targets[short]
    parts = [targets]
    share = rows.rules // len(rows.templates)
    made = [
        example for name in rows.templates for example in make_examples(share, seed=seed, name=name)
    ]
    texts += [example.text for example in made]
    parts.append(np.eye(_TWO, dtype=np.float32)[[int(example.positive) for example in made]])
    if rows.sentences and teach is not None:
        cut = [
            sentence
            for name, count in rows.sentences.items()
            for sentence in cut_sentences(pool.texts[name], count, rng)
        ]
        texts += cut
        parts.append(teach(cut))
    if rows.groups and teach is not None:
        told, alike = _tell_of_groups(rows.groups, teach, seed)
        texts += told
        parts.append(alike)
    if not texts:
        raise RecipeError("there are no rows: raise passes, sentences, rules or groups")
    # Changed after the teacher has read them, so that the network learns to ignore the changes.
    disturbed = perturb_share(texts, share=rows.noise, seed=seed)
    return SoftDataset(disturbed, np.concatenate(parts))


def _tell_of_groups(
    count: int, teach: Callable[[Sequence[str]], Targets], seed: int
) -> tuple[list[str], Targets]:
    """Makes sentences about groups of people; the target is the teacher's mean over all groups.

    Like counterfactual logit pairing (Garg et al. 2019, "Counterfactual fairness in text
    classification through robustness"), but with targets instead of a term of the loss.
    """
    sets = make_group_sets(count, seed=seed)
    rng = random.Random(f"{seed}/groups")  # noqa: S311 - not for secrets
    said = teach([text for told in sets for text in told])
    means = said.reshape(len(sets), -1, _TWO).mean(axis=1)  # [sets, C]
    texts = [text for told in sets for text in rng.sample(told, _TOLD_OF_EACH)]
    return texts, means.repeat(_TOLD_OF_EACH, axis=0)


def _places(count: int, passes: float, rng: random.Random) -> list[int]:
    whole = int(passes)
    places = [at for at in range(count) for _ in range(whole)]
    return places + rng.sample(range(count), round((passes - whole) * count))


def cut_sentences(texts: Sequence[str], count: int, rng: random.Random) -> list[str]:
    """Cuts different sentences of 4 to 40 words out of texts.

    Args:
        texts: whole reviews.
        count: how many sentences; fewer if the texts have no more.
        rng: decides which.
    """
    order = list(range(len(texts)))
    rng.shuffle(order)
    found: dict[str, None] = {}
    for at in order:
        sentences = [sentence.strip() for sentence in _SENTENCE.findall(texts[at])]
        good = [
            sentence
            for sentence in sentences
            if _FEWEST_WORDS <= len(sentence.split()) <= _MOST_WORDS
        ]
        # A few of each text, so that many texts contribute.
        found.update(dict.fromkeys(rng.sample(good, min(len(good), 1 + count // len(texts)))))
        if len(found) >= count:
            break
    return list(found)[:count]
