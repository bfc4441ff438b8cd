"""Answers one sentence with attributions of its tokens or words, or the importance of heads.

Gradients cost several times what a prediction does, and an integral needs many of them. So the
work is cut into jobs, each about as large as a batch: other requests run between them, and the
remaining jobs are dropped when the client leaves or the deadline passes.
"""

from functools import partial

from model import Attributor
from service.api.attention import encode
from service.api.schemas import AttributionsRequest, ImportanceRequest
from service.api.state import State
from service.errors import FieldError, InvalidRequestError
from service.formats.json import attributions_answer, importance_answer
from service.inference.admission import ClientId
from service.inference.work_items import Job


async def attribute(
    state: State, request: AttributionsRequest, place: str, deadline: float, caller: ClientId
) -> dict[str, object]:
    """Answers one request for attributions.

    Args:
        state: its engine computes, its settings limit the tokens in one job and in the queue.
        request: checked; its label exists.
        place: `body` or `query`, where the sentence came from.
        deadline: when the answer is of no use any more, by the event loop's clock.
        caller: who asks.

    Returns:
        The content of the answer.

    Raises:
        SentenceTooLongError: the text is too long and truncation is refused.
        InvalidRequestError: the queue could never hold the work, or it takes too long.
        ServiceError: whatever the engine raises.
    """
    engine = state.engine
    (encoding,) = await encode(state, request, place)
    attributor = Attributor(
        engine.predictor.gradients,
        encoding,
        label=request.label,
        method=request.method,
        steps=request.steps,
    )
    pieces = attributor.pieces(state.engine.max_batch_tokens)
    attempt = engine.predictor.attempt
    jobs = [
        Job(
            partial(attempt, partial(attributor.integrate, piece)),
            # The first piece also computes the ends of the path: the text and its baseline.
            [encoding] * (len(piece) + 2 * (not piece.start)),
        )
        for piece in pieces
    ]
    _check_work(sum(job.tokens for job in jobs), state.settings.max_queue_tokens, place)
    advice = partial(_fewer_steps, len(encoding.input_ids))
    shares = await engine.run(jobs, deadline=deadline, caller=caller, advice=advice)
    attribution = attributor.finish(shares)
    if request.level == "word":
        attribution = attribution.by_word()
    return attributions_answer(engine.info, attribution, level=request.level)


async def rank_heads(
    state: State, request: ImportanceRequest, place: str, deadline: float, caller: ClientId
) -> dict[str, object]:
    """Answers one request for the importance of heads.

    Args:
        state: its engine computes.
        request: checked; its label exists.
        place: `body` or `query`, where the sentence came from.
        deadline: when the answer is of no use any more, by the event loop's clock.
        caller: who asks.

    Returns:
        The content of the answer.

    Raises:
        SentenceTooLongError: the text is too long and truncation is refused.
        ServiceError: whatever the engine raises.
    """
    engine = state.engine
    (encoding,) = await encode(state, request, place)
    work = partial(engine.predictor.gradients.head_importance, encoding, label=request.label)
    job = Job(partial(engine.predictor.attempt, work), [encoding])
    (importance,) = await engine.run([job], deadline=deadline, caller=caller)
    return importance_answer(engine.info, importance)


def _fewer_steps(length: int, fitting: int) -> str:
    """Advises how to ask for less; two more passes of the text are for the ends of the path."""
    steps = fitting // length - 2
    return f"ask for at most {steps} steps" if steps >= 1 else "shorten the sentence"


def _check_work(tokens: int, limit: int, place: str) -> None:
    if tokens > limit:
        message = (
            f"its attributions take {tokens} tokens through the network, and the queue holds "
            f"{limit}: ask for fewer steps, or shorten it"
        )
        errors = [FieldError((place, "sentence"), message)]
        raise InvalidRequestError(f"sentence: {message}.", errors=errors)
