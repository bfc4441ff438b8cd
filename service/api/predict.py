"""Answers the items of a request with predictions, or each bad one with its error."""

import asyncio
from collections.abc import Iterator, Sequence

from model import Encoding, Prediction, Predictor
from service.api.encoding import INLINE_CHARACTERS
from service.api.interventions import interventions_of
from service.api.items import Item, Plan, at_item, encode_items, join_faults
from service.api.schemas import PredictRequest
from service.api.state import State
from service.errors import InternalError, ServiceError
from service.formats.results import SentenceResult, TextResult
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
    plan = Plan(
        truncation=request.truncation,
        by_sentence=request.granularity == "sentence",
        max_windows=state.settings.max_windows,
        max_sentences=state.settings.max_item_sentences,
        max_tokens=state.settings.max_queue_tokens,
        interventions=interventions_of(request),
    )
    characters = sum(len(item) for item in request.sentences if isinstance(item, str))
    work = (engine.predictor, request.sentences, plan)
    if plan.by_sentence:
        characters *= _SENTENCES_COST
    if characters > INLINE_CHARACTERS:
        items = await asyncio.to_thread(encode_items, *work)
    else:
        items = encode_items(*work)
    faults = {index: item for index, item in enumerate(items) if isinstance(item, ServiceError)}
    if faults and request.on_error == "request":
        raise join_faults(faults)
    good = [item for item in items if isinstance(item, Item)]
    answered: list[Prediction | InternalError] = []
    if good:
        encodings = [encoding for item in good for encoding in item.encodings]
        answered = await engine.predict(encodings, deadline=deadline, caller=caller)
    answers = iter(answered)
    merged: list[TextResult | ServiceError] = []
    read: list[tuple[Sequence[Encoding], Prediction]] = []
    for index, item in enumerate(items):
        answer = item if isinstance(item, ServiceError) else _join(engine.predictor, item, answers)
        if isinstance(answer, InternalError):
            answer = at_item(index, answer)
            if request.on_error == "request":
                raise answer
        if isinstance(item, Item) and isinstance(answer, TextResult):
            read.append((item.windows, answer.prediction))
        merged.append(answer)
    # What a changed network or text says is no sign of how the model is used.
    if not plan.interventions:
        engine.note_answers(read)
    return merged


def _join(
    predictor: Predictor, item: Item, answers: Iterator[Prediction | InternalError]
) -> TextResult | InternalError:
    """Takes the answers of an item, and puts them together; the first error is that of the item."""
    whole, *rest = [
        _join_windows(predictor, [next(answers) for _ in windows])
        for windows in (item.windows, *(each.windows for each in item.sentences or ()))
    ]
    found: list[Prediction] = []
    for joined in (whole, *rest):
        if isinstance(joined, InternalError):
            return joined
        found.append(joined)
    if item.sentences is None:
        return TextResult(found[0])
    sentences = zip(item.sentences, found[1:], strict=True)
    return TextResult(found[0], [SentenceResult(each.span, its) for each, its in sentences])


def _join_windows(
    predictor: Predictor, windows: Sequence[Prediction | InternalError]
) -> Prediction | InternalError:
    """Makes one prediction of those of all windows of a text, or returns an error of theirs."""
    found: list[Prediction] = []
    for window in windows:
        if isinstance(window, InternalError):
            return window
        found.append(window)
    return predictor.join(found)
