"""Draws the rows of a stage from the sources of a plan, and adds what the teacher says.

Legend: N rows, C classes.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score

from training.errors import RecipeError
from training.fit.rows import LEFT_OUT
from training.plan.plan import StageRows
from training.synth.augment import detokenize_share, perturb_share
from training.synth.names import fill_masked_names
from training.synth.templates import Example, make_examples, make_group_sets

Targets = NDArray[np.float32]
_SENTENCE = re.compile(r"[^.!?]+[.!?]+[\"')\]]*")
_FEWEST_WORDS, _MOST_WORDS = 4, 40
_DRAWN_OF_EACH = 4
_NAMES_FILLED = 0.5


@dataclass(frozen=True, slots=True)
class Pool:
    """The rows that stages draw from. The first class and the last are opposites."""

    texts: Mapping[str, Sequence[str]]
    label_ids: Mapping[str, Sequence[int]]
    num_labels: int = 2
    known: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SoftDataset:
    """Texts, and probabilities of the classes [N, C].

    `LEFT_OUT` stands for a class of which a row says nothing: the others are learnt without it.
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
    ask_expert: Callable[[Sequence[str]], Targets] | None = None,
) -> SoftDataset:
    """Draws the rows of a stage.

    Args:
        teach: returns the teacher's probabilities of texts; None without a teacher.
        ask_expert: returns the expert's probabilities of texts [N, C], with `LEFT_OUT` for classes
            that it does not know; None without an expert.

    Raises:
        RecipeError: there are no rows.
    """
    rng = random.Random(f"{seed}/rows")  # noqa: S311 - not for secrets
    texts: list[str] = []
    targets = np.zeros((0, pool.num_labels), np.float32)  # [N, C]
    sources: list[str] = []
    for name, passes in rows.passes.items():
        indices = _draw_indices(len(pool.texts[name]), passes, rng)
        texts += [pool.texts[name][index] for index in indices]
        sources += [name] * len(indices)
        label_ids = [pool.label_ids[name][index] for index in indices]
        targets = np.concatenate([targets, _one_hot(pool, label_ids, pool.known.get(name))])
    texts = list(detokenize_share(texts, share=undo_penn_share, seed=seed))
    texts = list(fill_masked_names(texts, share=_NAMES_FILLED, seed=seed))
    if rows.soft and teach is not None and fits_teacher is not None:
        short = [index for index, text in enumerate(texts) if fits_teacher(text)]
        owners = [sources[index] for index in short]
        taught = _taught([texts[index] for index in short], owners, rows.expert, teach, ask_expert)
        hard = np.full(len(short), 1.0 - rows.soft)
        if rows.agreement:
            hard *= _agreement(taught, targets[short], owners)
        targets[short] = mix_targets(taught, targets[short], hard)
    parts = [targets]
    share = rows.rules // len(rows.templates)
    examples = [
        example for name in rows.templates for example in make_examples(share, seed=seed, name=name)
    ]
    texts += [example.text for example in examples]
    parts.append(_by_rule(pool, examples))
    if rows.sentences and teach is not None:
        cut = [
            (sentence, name)
            for name, count in rows.sentences.items()
            for sentence in cut_sentences(pool.texts[name], count, rng)
        ]
        sentences = [sentence for sentence, _ in cut]
        texts += sentences
        owners = [name for _, name in cut]
        parts.append(_taught(sentences, owners, rows.expert, teach, ask_expert))
    if rows.groups and teach is not None:
        sentences, alike = _group_sentences(rows.groups, teach, seed)
        texts += sentences
        parts.append(alike)
    if not texts:
        raise RecipeError("there are no rows: raise passes, sentences, rules or groups")
    # Changed after the teacher has read them, so that the network learns to ignore the changes.
    perturbed = perturb_share(texts, share=rows.noise, seed=seed)
    return SoftDataset(perturbed, np.concatenate(parts))


def mix_targets(taught: Targets, labelled: Targets, hard: NDArray[np.float64]) -> Targets:
    """Mixes the teacher's probabilities with labels.

    Where a label says nothing of a class, only the teacher says how probable that class is, and
    the label counts for the rest.

    Args:
        taught: probabilities of the teacher [N, C].
        labelled: one-hot labels [N, C], with `LEFT_OUT` for classes that a row says nothing of.
        hard: weight of each label [N]; the teacher has the rest.

    Returns:
        Probabilities [N, C].
    """
    unsaid = labelled == LEFT_OUT
    labelled_share = 1.0 - np.where(unsaid, taught, 0.0).sum(axis=1, keepdims=True)  # [N, 1]
    soft: NDArray[np.float32] = (1.0 - hard).astype(np.float32)[:, None]
    share: NDArray[np.float32] = hard.astype(np.float32)[:, None]
    mixed: Targets = np.where(
        unsaid, taught, soft * taught + share * labelled_share * labelled
    ).astype(np.float32)
    return mixed


def _taught(
    texts: Sequence[str],
    owners: Sequence[str],
    read_by_expert: Sequence[str],
    teach: Callable[[Sequence[str]], Targets],
    ask_expert: Callable[[Sequence[str]], Targets] | None,
) -> Targets:
    """Returns the teacher's probabilities [N, C], shared out where the expert reads a text."""
    taught = teach(texts)
    indices = [index for index, owner in enumerate(owners) if owner in read_by_expert]
    if ask_expert is not None and indices:
        answers = ask_expert([texts[index] for index in indices])
        taught[indices] = mix_targets(taught[indices], answers, np.ones(len(indices)))
    return taught


def _by_rule(pool: Pool, examples: Sequence[Example]) -> Targets:
    """Returns the targets of sentences made by rule [N, C].

    A pleased sentence or its opposite says nothing about the classes between the first and last,
    unless its rule is sure.
    """
    ends = (0, pool.num_labels - 1)
    targets = np.full((len(examples), pool.num_labels), LEFT_OUT, np.float32)
    for row, example in zip(targets, examples, strict=True):
        if example.positive is None:
            row[:] = 0.0
            row[pool.num_labels // 2] = 1.0
        else:
            row[slice(None) if example.sure else list(ends)] = 0.0
            row[ends[example.positive]] = 1.0
    return targets


def _agreement(taught: Targets, labelled: Targets, owners: Sequence[str]) -> NDArray[np.float64]:
    """Returns Cohen's kappa of teacher and labels, of the source of each row, at least 0 [N].

    Cohen 1960, "A coefficient of agreement for nominal scales". A source that lacks classes is
    judged by those that it has.
    """
    result = np.zeros(len(owners))
    sources = np.array(owners)
    for name in dict.fromkeys(owners):
        mine = sources == name
        truth = labelled[mine]
        predicted = np.where(truth == LEFT_OUT, -1.0, taught[mine]).argmax(axis=1)
        right = truth.argmax(axis=1)
        kappa = cohen_kappa_score(predicted, right, replace_undefined_by=1.0)
        result[mine] = max(0.0, kappa)
    return result


def _one_hot(pool: Pool, label_ids: Sequence[int], known: Sequence[int] | None) -> Targets:
    """Returns the targets of labels [N, C]; what is not known is left out."""
    hot = np.full((len(label_ids), pool.num_labels), LEFT_OUT, np.float32)
    hot[:, list(range(pool.num_labels) if known is None else known)] = 0.0
    hot[np.arange(len(label_ids)), np.array(label_ids, np.int64)] = 1.0
    return hot


def _group_sentences(
    count: int, teach: Callable[[Sequence[str]], Targets], seed: int
) -> tuple[list[str], Targets]:
    """Makes sentences about groups of people; the target is the teacher's mean over all groups.

    Like counterfactual logit pairing (Garg et al. 2019, "Counterfactual fairness in text
    classification through robustness"), but with targets instead of a term of the loss.
    """
    sets = make_group_sets(count, seed=seed)
    rng = random.Random(f"{seed}/groups")  # noqa: S311 - not for secrets
    answers = teach([text for texts in sets for text in texts])
    means = answers.reshape(len(sets), -1, answers.shape[1]).mean(axis=1)  # [sets, C]
    texts = [text for texts in sets for text in rng.sample(texts, _DRAWN_OF_EACH)]
    return texts, means.repeat(_DRAWN_OF_EACH, axis=0)


def _draw_indices(count: int, passes: float, rng: random.Random) -> list[int]:
    whole = int(passes)
    indices = [index for index in range(count) for _ in range(whole)]
    return indices + rng.sample(range(count), round((passes - whole) * count))


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
