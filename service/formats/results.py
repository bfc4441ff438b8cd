"""Writes what the model says of an item of a request: as a whole, and of its sentences."""

from dataclasses import dataclass

from model import Prediction
from model.reading import TextResult


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """What is told of a verdict.

    Args:
        windows: whether to say how many windows were read.
        abstain_below: a prediction of a lower score has no label; None: each has one.
    """

    windows: bool = False
    abstain_below: float | None = None


def tell(verdict: TextResult, telling: ResponseOptions) -> object:
    """What orjson writes of a verdict.

    Args:
        verdict: of one item.
        telling: what is wanted.
    """
    prediction = verdict.prediction
    if verdict.sentences is None and not telling.windows and not _abstains(prediction, telling):
        return prediction  # orjson writes it faster as it is
    told = _members(prediction, telling)
    if telling.windows:
        told["windows"] = prediction.windows
    if verdict.sentences is not None:
        told["sentences"] = [
            {
                "start": each.span.start,
                "end": each.span.end,
                **_members(each.prediction, telling),
            }
            for each in verdict.sentences
        ]
    return told


def _members(prediction: Prediction, telling: ResponseOptions) -> dict[str, object]:
    return {
        "label": None if _abstains(prediction, telling) else prediction.label,
        "score": prediction.score,
        "probabilities": prediction.probabilities,
        "token_count": prediction.token_count,
        "truncated": prediction.truncated,
    }


def _abstains(prediction: Prediction, telling: ResponseOptions) -> bool:
    return telling.abstain_below is not None and prediction.score < telling.abstain_below
