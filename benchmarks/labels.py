"""From two servers to whether they answer the same labels; only then a ratio means anything."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.errors import AnswerError, MismatchError

# Each probability may be off by 0.02 in bfloat16, so two that are nearer may change places.
_NEAR = 0.04


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server says of one sentence.

    Args:
        label: the most probable one.
        near: whether another label is so close that rounding may turn the answer.
    """

    label: str
    near: bool = False


def read_answers(body: bytes) -> list[Answer]:
    """Reads what a server answers, in the form of the service or as a bare list.

    Args:
        body: JSON.

    Raises:
        AnswerError: it is something else.
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
    """Checks that both servers say the same of sentences.

    Args:
        ours: which know how near the next label is.
        peers: of which the labels matter alone.
        sentences: that both were asked.
        peer: name of the other server.

    Raises:
        MismatchError: a label differs that no rounding could have turned, or an answer is missing.
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
