"""Checks that two servers answer the same labels; only then does a ratio mean anything."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.errors import AnswerError, MismatchError

# In bfloat16 each probability may be off by 0.02, so two closer than this may swap.
_NEAR = 0.04


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer to one sentence.

    Args:
        label: the most probable one.
        near: whether another label is so close that rounding may change the answer.
    """

    label: str
    near: bool = False


def read_answers(body: bytes) -> list[Answer]:
    """Reads predictions in the form of the service or as a bare list.

    Args:
        body: JSON.

    Raises:
        AnswerError: the body holds something else.
    """
    try:
        content = json.loads(body)
        found = content["predictions"] if isinstance(content, dict) else content
        return [Answer(item["label"], _near(item.get("probabilities", {}))) for item in found]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AnswerError(f"the answer holds no predictions: {error!r}") from error


def compare(
    ours: Sequence[Answer], peers: Sequence[Answer], *, sentences: Sequence[str], peer: str
) -> None:
    """Checks that two servers answered the same labels.

    Args:
        ours: the service's answers, with how near the next label is.
        peers: the peer's answers; only their labels matter.
        sentences: that both were asked.
        peer: name of the peer.

    Raises:
        MismatchError: a label differs by more than rounding explains, or an answer is missing.
    """
    for name, answers in (("headlight", ours), (peer, peers)):
        if len(answers) != len(sentences):
            raise MismatchError(f"{name} answered {len(answers)} of {len(sentences)} sentences")
    differ = [
        (sentence, one.label, other.label)
        for sentence, one, other in zip(sentences, ours, peers, strict=True)
        if one.label != other.label and not (one.near or other.near)
    ]
    if differ:
        sentence, one, other = differ[0]
        raise MismatchError(
            f"the servers disagree about {len(differ)} of {len(sentences)} sentences, first about "
            f"{sentence!r}: headlight says {one}, {peer} {other}"
        )


def _near(probabilities: dict[str, float]) -> bool:
    highest = sorted(probabilities.values())[-2:]
    return len(highest) == 2 and highest[1] - highest[0] <= _NEAR
