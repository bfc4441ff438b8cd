"""Makes the rows that a stage learns from: of sources, of reviews, by rule, about people.

Legend: N rows, C classes.
"""

import csv
import random
import re
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score

from recipes.data import LABELS
from recipes.templates import make_examples, make_group_sets
from training.data.augment import GIVEN_NAMES, detokenize_share, perturb
from training.data.dataset import Dataset
from training.data.validation_split import text_key
from training.fit.rows import LEFT_OUT

Targets = NDArray[np.float32]
Teach = Callable[[Sequence[str]], Targets]

_NEGATIVE, _NEUTRAL, _POSITIVE = range(len(LABELS))
_SENTENCE = re.compile(r"[^.!?]+[.!?]+[\"')\]]*")
_FEWEST_WORDS, _MOST_WORDS = 4, 40
_DRAWN_OF_EACH = 4
_DETOKENIZED, _NAMES_FILLED = 0.5, 0.5  # shares of the texts that need it
_WRITTEN = Path(__file__).parent / "rules" / "written.tsv"
_DOUBT = 0.02  # probability of each class that was not written down
_TEMPLATES = ("behaviours", "complaints", "everyday", "neutral", "service")


@dataclass(frozen=True, slots=True)
class Rows:
    """Texts, and probabilities of the classes to learn [N, C].

    `LEFT_OUT` stands for a class of which a row says nothing: the others are learnt without it.
    """

    texts: Sequence[str]
    targets: Targets


def join(parts: Sequence[Rows], *, keep_out: Set[str], noise: float, seed: int) -> Rows:
    """Joins rows except texts of these keys, and changes a share of them, `noise`, by slips."""
    rng = random.Random(f"{seed}/noise")  # noqa: S311 - not for secrets
    texts = [text for part in parts for text in part.texts]
    free = [index for index, text in enumerate(texts) if text_key(text) not in keep_out]
    noisy = [perturb(texts[index], rng) if rng.random() < noise else texts[index] for index in free]
    return Rows(noisy, np.concatenate([part.targets for part in parts])[free])


def labelled(rows: Dataset, passes: float, *, has_neutral: bool, seed: int) -> Rows:
    """Draws rows of a source; one without neutral rows says nothing of that class."""
    rng = random.Random(f"{seed}/{rows.sources[0].file}")  # noqa: S311 - not for secrets
    whole = int(passes)
    indices = [index for index in range(len(rows)) for _ in range(whole)]
    indices += rng.sample(range(len(rows)), round((passes - whole) * len(rows)))
    targets = np.zeros((len(indices), len(LABELS)), np.float32)
    if not has_neutral:
        targets[:, _NEUTRAL] = LEFT_OUT
    targets[range(len(indices)), [rows.label_ids[index] for index in indices]] = 1.0
    texts = [rows.texts[index] for index in indices]
    texts = list(detokenize_share(texts, share=_DETOKENIZED, seed=seed))
    return Rows(fill_masked_names(texts, share=_NAMES_FILLED, seed=seed), targets)


def soften(rows: Rows, teach: Teach, fits: Callable[[str], bool], *, soft: float) -> Rows:
    """Mixes the teacher's probabilities into the labels of a source.

    Args:
        fits: whether the teacher can read a whole text; others keep their labels.
        soft: weight of the teacher. The rest, the weight of the labels, is multiplied by how far
            they agree with the teacher: Cohen's kappa, at least 0.
    """
    short = [index for index, text in enumerate(rows.texts) if fits(text)]
    if not short:
        return rows
    taught, truth = teach([rows.texts[index] for index in short]), rows.targets[short]
    hard = (1.0 - soft) * agreement(taught, truth)
    targets = rows.targets.copy()
    targets[short] = mix_targets(taught, truth, hard)
    return Rows(rows.texts, targets)


def agreement(taught: Targets, truth: Targets) -> float:
    """Computes Cohen's kappa of teacher and labels, at least 0, by the classes of the labels.

    Cohen 1960, "A coefficient of agreement for nominal scales".
    """
    predicted = np.where(truth == LEFT_OUT, -1.0, taught).argmax(axis=1)
    kappa = cohen_kappa_score(predicted, truth.argmax(axis=1), replace_undefined_by=1.0)
    return max(0.0, float(kappa))


def mix_targets(taught: Targets, truth: Targets, hard: float) -> Targets:
    """Mixes probabilities of a teacher [N, C] with one-hot labels [N, C], of weight `hard`.

    Where a label says nothing of a class (`LEFT_OUT`), only the teacher says how probable that
    class is, and the label counts for the rest.
    """
    unsaid = truth == LEFT_OUT
    share = 1.0 - np.where(unsaid, taught, 0.0).sum(axis=1, keepdims=True)  # [N, 1]
    mixed: Targets = np.where(unsaid, taught, (1.0 - hard) * taught + hard * share * truth).astype(
        np.float32
    )
    return mixed


def from_reviews(reviews: Sequence[str], count: int, teach: Teach, *, seed: int) -> Rows:
    """Cuts sentences out of reviews, which only the teacher labels."""
    rng = random.Random(f"{seed}/sentences")  # noqa: S311 - not for secrets
    texts = cut_sentences(reviews, count, rng)
    return Rows(texts, teach(texts))


def cut_sentences(texts: Sequence[str], count: int, rng: random.Random) -> list[str]:
    """Cuts different sentences of 4 to 40 words out of texts."""
    order = list(range(len(texts)))
    rng.shuffle(order)
    chosen: dict[str, None] = {}
    for index in order:
        sentences = [sentence.strip() for sentence in _SENTENCE.findall(texts[index])]
        good = [
            sentence
            for sentence in sentences
            if _FEWEST_WORDS <= len(sentence.split()) <= _MOST_WORDS
        ]
        # A few of each text, so that many texts contribute.
        chosen.update(dict.fromkeys(rng.sample(good, min(len(good), 1 + count // len(texts)))))
        if len(chosen) >= count:
            break
    return list(chosen)[:count]


def by_rule(count: int, *, seed: int) -> Rows:
    """Makes sentences from templates.

    A pleased sentence or its opposite says nothing about neutral, unless its rule is sure.
    """
    share = count // len(_TEMPLATES)
    examples = [
        example for name in _TEMPLATES for example in make_examples(share, seed=seed, name=name)
    ]
    targets = np.full((len(examples), len(LABELS)), LEFT_OUT, np.float32)
    for row, example in zip(targets, examples, strict=True):
        if example.positive is None:
            row[:] = 0.0
            row[_NEUTRAL] = 1.0
        else:
            row[slice(None) if example.sure else [_NEGATIVE, _POSITIVE]] = 0.0
            row[_POSITIVE if example.positive else _NEGATIVE] = 1.0
    return Rows([example.text for example in examples], targets)


def written() -> Rows:
    """Reads the sentences that were written one by one: what happened, and not how it felt."""
    with _WRITTEN.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    targets = np.full((len(lines), len(LABELS)), _DOUBT, np.float32)
    labels = [LABELS.index(label) for label, _, _ in lines]
    targets[range(len(lines)), labels] = 1.0 - (len(LABELS) - 1) * _DOUBT
    return Rows([text for _, _, text in lines], targets)


def about_people(count: int, teach: Teach, *, seed: int) -> Rows:
    """Makes sentences about groups of people; the target is the teacher's mean over all groups.

    Like counterfactual logit pairing (Garg et al. 2019, "Counterfactual fairness in text
    classification through robustness"), but with targets instead of a term of the loss.
    """
    sets = make_group_sets(count, seed=seed)
    rng = random.Random(f"{seed}/groups")  # noqa: S311 - not for secrets
    answers = teach([text for texts in sets for text in texts])
    means = answers.reshape(len(sets), -1, answers.shape[1]).mean(axis=1)  # [sets, C]
    texts = [text for texts in sets for text in rng.sample(texts, _DRAWN_OF_EACH)]
    return Rows(texts, means.repeat(_DRAWN_OF_EACH, axis=0))


def fill_masked_names(texts: Sequence[str], *, share: float, seed: int) -> list[str]:
    """Writes given names for `[NAME]`, by which some data sets hide who was named."""
    rng = random.Random(f"{seed}/names")  # noqa: S311 - not for secrets
    return [
        re.sub(r"\[NAME\]", lambda _: rng.choice(GIVEN_NAMES), text)
        if "[NAME]" in text and rng.random() < share
        else text
        for text in texts
    ]
