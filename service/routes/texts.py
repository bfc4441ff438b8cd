"""Reads and classifies the texts of a request; each bad text becomes an error that names it."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from model import Choice, Encoding, Head, Prediction
from model.errors import InputError, NoSuchPartError, TextTooLongError, TokenizerError
from model.predictor import PathName
from model.reading import ReadingOptions, join_results, read_in_steps, read_window
from model.tokenization.language import ENGLISH, find_warnings
from model.types import EncodedText, TextResult
from service.errors import (
    UNREADABLE_DETAIL,
    FieldError,
    InternalError,
    InvalidRequestError,
    Loc,
    SentenceTooLongError,
    ServiceError,
    invalid,
)
from service.metrics import EXPLICIT, FUSED
from service.queue.preparing import Steps
from service.routes.requests import WITH_TOKENS, WITHOUT_TOKENS, RequestContext, State
from service.routes.wording import MOST_WORDED
from service.tracing.record import CURRENT, NOTHING

logger = logging.getLogger("headlight.texts")

# How the model's errors say that a text could be cut.
_CUT = "set truncation to right or left"
_NO_STRING = "the item is not a string: send text"


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of a request.

    Args:
        items: should be strings; each is checked where it is encoded.
        field: where the body holds them all.
        below: returns where an item stands below it, by its index.
        cut_by: how a client has a long text cut, in the words of its own system.
    """

    items: Sequence[object]
    options: ReadingOptions = field(default_factory=ReadingOptions)
    field: Loc = ("sentences",)
    below: Callable[[int], Loc] = lambda index: (index,)
    cut_by: str = _CUT

    def locate(self, index: int) -> Loc:
        """Returns where an item stands in the body."""
        return (*self.field, *self.below(index))


def only(_: int) -> Loc:
    """Says of the only text of a request that it stands at the field itself."""
    return ()


def heads_off(request: object) -> list[Head]:
    """Returns the heads that a checked request of any kind switches off."""
    return [Head(one.layer, one.head) for one in getattr(request, "head_mask", None) or ()]


def is_english(state: State) -> bool:
    """Whether answers warn of other languages than the only one that the model reads."""
    return state.settings.language_warning == "on" and state.engine.info.language == ENGLISH


def shape(context: RequestContext, labels: Sequence[str] | None) -> Callable[..., Prediction]:
    """Returns what makes the prediction of an explained text the one that is answered.

    It narrows it to the labels, if any, and adds warnings about the text.
    """
    choice = choice_of(context, labels)
    warns = is_english(context.state)

    def answered(prediction: Prediction, text: str) -> Prediction:
        if choice is not None:
            prediction = choice.narrow(prediction)
        return prediction.warned(*find_warnings(text)) if warns else prediction

    return answered


def choice_of(context: RequestContext, labels: Sequence[str] | None) -> Choice | None:
    """Returns the choice that a checked request asks for, if any."""
    return None if labels is None else context.state.engine.info.choice(labels)


async def classify(
    context: RequestContext, texts: Texts, *, by_item: bool = False
) -> list[TextResult | ServiceError]:
    """Returns the result of each text of a request, or with `by_item` its error in its place.

    Raises:
        InvalidRequestError: a text is not a string, blank or not valid Unicode; or a token to
            leave out is not there.
        SentenceTooLongError: a text is longer than the options allow.
        InternalError: the tokenizer or the network fails on a text.
        ServiceError: whatever the engine raises.
    """
    state, predictor = context.state, context.state.engine.predictor
    work = _encode_items(context, texts, by_item=by_item)
    cost = WITH_TOKENS if texts.options.omit else WITHOUT_TOKENS
    items = await context.prepare(work, texts.items, cost=cost)
    pairs = zip(texts.items, items, strict=True)
    if refused := [text for text, item in pairs if isinstance(item, ServiceError)]:
        context.pay(refused)
    encodings = [
        encoding for item in items if isinstance(item, EncodedText) for encoding in item.encodings
    ]
    predicted: list[Prediction | InternalError] = []
    if encodings:
        predicted = await state.engine.queue.predict(
            encodings, deadline=context.deadline, caller=context.client
        )
    results: list[TextResult | ServiceError] = []
    answered: list[tuple[Sequence[Encoding], Prediction]] = []
    remaining = iter(predicted)
    for index, item in enumerate(items):
        if not isinstance(item, EncodedText):
            results.append(item)
            continue
        result: TextResult | InternalError = join_results(predictor, item, remaining)
        if isinstance(result, TextResult):
            answered.append((item.windows, result.prediction))
        else:
            result = _at(("body", *texts.locate(index)), result)
            if not by_item:
                raise result
        results.append(result)
    # What a changed network or text says does not show how the model is used.
    if state.metrics.answers is not None and not texts.options.intervenes:
        state.metrics.answers.observe(answered)
    return results


def _encode_items(
    context: RequestContext, texts: Texts, *, by_item: bool
) -> Steps[list[EncodedText | ServiceError]]:
    """Encodes the texts; stops as soon as the first ones are too much work."""
    items: list[EncodedText | ServiceError] = []
    tokens, engine = 0, context.state.engine
    most = engine.limits.most_tokens(FUSED, context.client.seconds)
    with tokenizing(len(texts.items)):
        for read in read_in_steps(engine.predictor, texts.items, texts.options):
            yield
            if read is None:
                continue
            index = len(items)
            if isinstance(read, EncodedText):
                items.append(read)
                tokens += sum([len(encoding.input_ids) for encoding in read.encodings])
            else:
                items.append(_refusal(read, texts, index))
            if tokens > most:
                _check_work(context, FUSED, tokens, index)
    errors = [item for item in items if isinstance(item, ServiceError)]
    if errors and not by_item:
        raise _join_errors(errors)
    return items


def _refusal(error: Exception, texts: Texts, index: int) -> ServiceError:
    """Makes the answer of a text that cannot be read."""
    loc = ("body", *texts.locate(index))
    if not isinstance(texts.items[index], str):
        return invalid(loc, _NO_STRING)
    answer = _answer_to(error, loc, texts.cut_by)
    answer.__cause__ = error
    return _at(loc, answer) if isinstance(answer, InternalError) else answer


def _check_work(context: RequestContext, path: PathName, tokens: int, index: int) -> None:
    """Refuses the tokens of the texts up to an index, if they are too many."""
    what = f"The first {index + 1} texts take" if index else "The text takes"
    context.state.engine.limits.check(path, tokens, context.client.seconds, what=what)


def encode(context: RequestContext, texts: Texts, *, window: int = 0) -> Steps[list[Encoding]]:
    """Encodes each text, or one window of it, with its tokens.

    Raises:
        InvalidRequestError: a text cannot be read, or has no window of this index.
        SentenceTooLongError: a text is longer than the options allow.
        TooMuchWorkError: they have too many tokens.
        InternalError: the tokenizer breaks on a text.
    """
    predictor, tokens = context.state.engine.predictor, 0
    encodings: list[Encoding] = []
    with tokenizing(len(texts.items)):
        for index, text in enumerate(texts.items):
            yield
            loc = (context.source, *texts.locate(index))
            if not isinstance(text, str):
                raise invalid(loc, _NO_STRING)
            with reading(loc, texts.cut_by):
                encodings.append(read_window(predictor, text, texts.options, window))
            tokens += len(encodings[-1].input_ids)
            _check_work(context, EXPLICIT, tokens, index)
    return encodings


def tokenizing(texts: int) -> AbstractContextManager[object]:
    """Notes that so many texts are tokenized, if the current request is traced."""
    trace = CURRENT.get()
    return NOTHING if trace is None else trace.begin_work("tokenize", texts)


@contextmanager
def reading(loc: Loc, cut_by: str = _CUT) -> Iterator[None]:
    """Raises an error of the service where the text at `loc` cannot be read."""
    try:
        yield
    except (InputError, TokenizerError) as error:
        raise _answer_to(error, loc, cut_by) from error


def _answer_to(error: Exception, loc: Loc, cut_by: str) -> ServiceError:
    if not isinstance(error, InputError):
        logger.error("the tokenizer broke on a text", exc_info=error, extra={"fault": str(error)})
        return InternalError(UNREADABLE_DETAIL)
    if isinstance(error, NoSuchPartError):
        if error.position is not None:
            return invalid(("body", "omit", error.position), str(error))
        of_text = f"of sentences[{loc[-1]}], " if isinstance(loc[-1], int) else ""
        return invalid((loc[0], "window"), f"{of_text}{error}")
    is_long = isinstance(error, TextTooLongError)
    kind = SentenceTooLongError if is_long else InvalidRequestError
    return invalid(loc, str(error).replace(_CUT, cut_by), kind)


def _at(loc: Loc, error: InternalError) -> InternalError:
    """Adds to an error where the text stands."""
    if error.errors:
        return error
    message = error.detail.split(".")[0]
    message = message[0].lower() + message[1:]
    located = InternalError(error.detail, errors=[FieldError(loc, message)])
    located.__cause__ = error.__cause__
    return located


def _join_errors(errors: Sequence[ServiceError]) -> ServiceError:
    """Makes one error of those of the texts; invalid texts go before those that are too long."""
    invalid_ones = [error for error in errors if isinstance(error, InvalidRequestError)]
    first, *others = invalid_ones or errors
    if not others:
        return first
    found = [each for error in (first, *others[: MOST_WORDED - 1]) for each in error.errors]
    detail = f"{first.detail.removesuffix('.')}, and {len(others)} more are wrong too."
    return type(first)(detail, errors=found)
