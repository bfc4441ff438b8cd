"""From one sentence to attributions of its tokens or words, or to the importance of heads.

Gradients cost several times what a prediction does, and an integral needs them many times. So the
work is cut into jobs, each about as large as a batch: what others want gets in between, and what is
left is dropped when nobody waits for it any more.
"""

from functools import partial

from model import Attributor
from service.api.attention import encode_sentence
from service.api.schemas import AttributionsRequest, ImportanceRequest
from service.errors import FieldError, InvalidRequestError
from service.formats.answers import attributions_answer, importance_answer
from service.inference.engine import Engine
from service.inference.work import Job


async def attribute(
    engine: Engine,
    request: AttributionsRequest,
    *,
    max_batch_tokens: int,
    max_queue_tokens: int,
    place: str,
    deadline: float,
) -> dict[str, object]:
    """Answers one request for attributions.

    Args:
        engine: what computes.
        request: checked; its label exists.
        max_batch_tokens: the most tokens in one job, unless a single row has more.
        max_queue_tokens: the most tokens that may wait.
        place: `body` or `query`, where the sentence came from.
        deadline: when the answer is of no use any more, by the event loop's clock.

    Returns:
        The content of the answer.

    Raises:
        SentenceTooLongError: the text is too long and truncation is refused.
        InvalidRequestError: it is more work than could ever wait.
        ServiceError: whatever the engine raises.
    """
    encoding = await encode_sentence(engine, request, place)
    attributor = Attributor(
        engine.predictor.gradients,
        encoding,
        label=request.label,
        method=request.method,
        steps=request.steps,
    )
    pieces = attributor.pieces(max_batch_tokens)
    jobs = [
        # Whichever comes first computes the ends of the path too: the text and its baseline.
        Job(partial(attributor.integrate, piece), [encoding] * (len(piece) + 2 * (not piece.start)))
        for piece in pieces
    ]
    _check_work(sum(job.tokens for job in jobs), max_queue_tokens, place)
    attribution = attributor.finish(await engine.run(jobs, deadline=deadline))
    if request.level == "word":
        attribution = attribution.by_word()
    return attributions_answer(engine.info, attribution, level=request.level)


async def rank_heads(
    engine: Engine, request: ImportanceRequest, *, place: str, deadline: float
) -> dict[str, object]:
    """Answers one request for the importance of heads.

    Args:
        engine: what computes.
        request: checked; its label exists.
        place: `body` or `query`, where the sentence came from.
        deadline: when the answer is of no use any more, by the event loop's clock.

    Returns:
        The content of the answer.

    Raises:
        SentenceTooLongError: the text is too long and truncation is refused.
        ServiceError: whatever the engine raises.
    """
    encoding = await encode_sentence(engine, request, place)
    work = partial(engine.predictor.gradients.head_importance, encoding, label=request.label)
    (importance,) = await engine.run([Job(work, [encoding])], deadline=deadline)
    return importance_answer(engine.info, importance)


def _check_work(tokens: int, limit: int, place: str) -> None:
    if tokens > limit:
        message = (
            f"its attributions take {tokens} tokens through the network, and the queue holds "
            f"{limit}: ask for fewer steps, or shorten it"
        )
        errors = [FieldError((place, "sentence"), message)]
        raise InvalidRequestError(f"sentence: {message}.", errors=errors)
