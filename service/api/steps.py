"""Answers one sentence with the steps from queries and keys to one row of weights.

Steps need one pass up to a layer, in float32. They go through the queue as gradients do, so they
wait for their turn and are dropped when the client leaves or the deadline passes.
"""

from functools import partial

from starlette.responses import Response
from starlette.types import Scope

from service.api.attention import encode
from service.api.schemas import StepsQuery
from service.api.state import State
from service.errors import FieldError, InvalidRequestError, TooManyWeightsError
from service.formats.json import JSON, steps_body
from service.formats.size_estimates import estimate_steps
from service.http.memory_watch import LARGE_SHARE
from service.http.middleware import deadline_of
from service.http.response_budget import SMALL_BYTES
from service.inference.admission import ClientId
from service.inference.work_items import Job


async def follow(
    state: State, request: StepsQuery, place: str, scope: Scope, caller: ClientId
) -> Response:
    """Answers one request for the steps of a head.

    Args:
        state: its engine computes, its settings limit the numbers.
        request: checked; its layer and head exist.
        place: `body` or `query`, where the sentence came from.
        scope: of the request, with its deadline; the answer takes room until it is sent.
        caller: who asks.

    Raises:
        SentenceTooLongError: the text is too long for what the request says of long texts.
        InvalidRequestError: the text has no token or no window of the number.
        TooManyWeightsError: the answer would be too large; nothing was computed.
        OverloadedError: answers that are not read yet, or the memory, leave no room for it.
        ServiceError: whatever the engine raises.
    """
    engine = state.engine
    inspector = engine.predictor.inspector
    (encoding,) = await encode(state, request, place)
    length = len(encoding.input_ids)
    if request.query >= length:
        message = f"the text has tokens 0 to {length - 1}"
        errors = [FieldError((place, "query"), message)]
        raise InvalidRequestError(f"query: {message}.", errors=errors)
    numbers = inspector.count_numbers(length)
    if numbers > (limit := state.settings.max_attention_weights):
        raise TooManyWeightsError(
            f"The steps of a head over {length} tokens are {numbers} numbers; the limit is "
            f"{limit}: shorten the text."
        )
    size = estimate_steps(numbers, [token.text for token in encoding.tokens or ()])
    if size.answer > SMALL_BYTES:
        state.memory.check(LARGE_SHARE)
    room = state.sending.reserve(scope, answer=size.answer, making=size.making)

    def work() -> bytes:
        steps = inspector.steps(
            encoding, layer=request.layer, head=request.head, query=request.query
        )
        return steps_body(engine.info, steps)

    job = Job(partial(engine.predictor.attempt, work), [encoding])
    (body,) = await engine.run([job], deadline=deadline_of(scope), caller=caller)
    if room is not None:
        room.shrink(len(body))
    return Response(body, media_type=JSON)
