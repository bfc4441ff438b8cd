"""Answers the items of a request with predictions, or each bad one with its error."""

import asyncio
from collections.abc import Sequence
from functools import partial

from model import Encoding, Prediction
from model.reading import EncodedText, ReadingOptions, TextResult, join_results
from service.api.encoding import INLINE_CHARACTERS, heads_off
from service.api.items import at_item, encode_items, join_faults
from service.api.schemas import PredictRequest
from service.api.state import State
from service.errors import InternalError, ServiceError
from service.inference.admission import ClientId

# With its sentences, a text takes so many times as long to encode.
_SENTENCES_COST = 4


async def classify(
    state: State, request: PredictRequest, *, deadline: float, caller: ClientId
) -> list[TextResult | ServiceError]:
    """Answers the items of one request.

    Args:
        state: its engine computes the predictions, its settings limit them.
        request: checked but for its items.
        deadline: when the answer is of no use any more, by the event loop's clock.
        caller: who asks.

    Returns:
        For each item what the model says; or, if the request wants errors by item, its error.

    Raises:
        InvalidRequestError: an item is not a string, blank or not valid Unicode; or the items have
            more tokens together than the queue holds; or a token to leave out is not there.
        SentenceTooLongError: an item is too long for what the request says of long texts.
        InternalError: the tokenizer or the network breaks on an item.
        ServiceError: whatever the engine raises.
    """
    engine = state.engine
    options = ReadingOptions(
        truncation=request.truncation,
        by_sentence=request.granularity == "sentence",
        max_windows=state.settings.max_windows,
        max_sentences=state.settings.max_item_sentences,
        heads=heads_off(request),
        omit=request.omit or (),
    )
    characters = sum(len(item) for item in request.sentences if isinstance(item, str))
    work = partial(
        encode_items,
        engine.predictor,
        request.sentences,
        options,
        max_tokens=state.settings.max_queue_tokens,
    )
    if options.by_sentence:
        characters *= _SENTENCES_COST
    if characters > INLINE_CHARACTERS:
        items = await asyncio.to_thread(work)
    else:
        items = work()
    faults = {index: item for index, item in enumerate(items) if isinstance(item, ServiceError)}
    if faults and request.on_error == "request":
        raise join_faults(faults)
    good = [item for item in items if isinstance(item, EncodedText)]
    answered: list[Prediction | InternalError] = []
    if good:
        encodings = [encoding for item in good for encoding in item.encodings]
        answered = await engine.predict(encodings, deadline=deadline, caller=caller)
    answers = iter(answered)
    merged: list[TextResult | ServiceError] = []
    read: list[tuple[Sequence[Encoding], Prediction]] = []
    for index, item in enumerate(items):
        answer = (
            item
            if isinstance(item, ServiceError)
            else join_results(engine.predictor, item, answers)
        )
        if isinstance(answer, InternalError):
            answer = at_item(index, answer)
            if request.on_error == "request":
                raise answer
        if isinstance(item, EncodedText) and isinstance(answer, TextResult):
            read.append((item.windows, answer.prediction))
        merged.append(answer)
    # What a changed network or text says is no sign of how the model is used.
    if not options.intervenes:
        engine.note_answers(read)
    return merged
