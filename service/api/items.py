"""Turns the items of a request into the texts that go through the network, or into their errors.

An item is one text. Read in windows it is several, and with its sentences it is more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from model import Encoding, Predictor
from model.errors import InputError, NoSuchTokenError
from model.tokenization.sentences import Span, split_sentences
from model.tokenization.windows import Reading
from service.api.encoding import TOO_LONG, encode_text, guard
from service.api.interventions import Interventions, intervene, no_such_token
from service.errors import (
    FieldError,
    InternalError,
    InvalidRequestError,
    SentenceTooLongError,
    ServiceError,
)
from service.tracing.record import stage


@dataclass(frozen=True, slots=True)
class Plan:
    """How the items of a request are read.

    Args:
        truncation: what becomes of a text that is longer than the model reads.
        by_sentence: whether the sentences of an item are read too, each as a text of its own.
        max_windows: the most windows of a text.
        max_sentences: the most sentences of an item.
        max_tokens: the most tokens of all items together.
        interventions: what is changed about them.
    """

    truncation: Reading
    by_sentence: bool
    max_windows: int
    max_sentences: int
    max_tokens: int
    interventions: Interventions = field(default_factory=Interventions)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of an item.

    Args:
        span: where it stands in the item.
        windows: as the model reads it, like those of an item.
    """

    span: Span
    windows: Sequence[Encoding]


@dataclass(frozen=True, slots=True)
class Item:
    """An item that can be classified.

    Args:
        windows: the text as the model reads it; one encoding if it is not read in windows.
        sentences: in order; None if they are not read.
    """

    windows: Sequence[Encoding]
    sentences: Sequence[Sentence] | None

    @property
    def encodings(self) -> list[Encoding]:
        """All texts that go through the network for it: the whole, then its sentences."""
        sentences = self.sentences or ()
        return [*self.windows, *(each for sentence in sentences for each in sentence.windows)]


def encode_items(
    predictor: Predictor, sentences: Sequence[object], plan: Plan
) -> list[Item | ServiceError]:
    """Encodes the items of a request.

    Args:
        predictor: its tokenizer does it.
        sentences: what should be texts.
        plan: how they are read.

    Returns:
        Each as it will be classified, or its error.

    Raises:
        InvalidRequestError: together they have more tokens than the queue holds.
    """
    items: list[Item | ServiceError] = []
    tokens = 0
    with stage("tokenize", len(sentences)):
        for index, sentence in enumerate(sentences):
            item = _encode(predictor, sentence, index, plan)
            items.append(item)
            if isinstance(item, Item):
                tokens += sum(len(encoding.input_ids) for encoding in item.encodings)
            if tokens > plan.max_tokens:
                raise _too_much(index + 1, plan.max_tokens)
    return items


def _too_much(count: int, limit: int) -> InvalidRequestError:
    """Refuses more than the queue could ever hold, as soon as it is known."""
    first = "the text has" if count == 1 else f"the first {count} texts have"
    message = (
        f"{first} more than {limit} tokens with all windows and sentences, and the queue holds no "
        "more: send fewer or shorter texts at once"
    )
    errors = [FieldError(("body", "sentences"), message)]
    return InvalidRequestError(f"sentences: {message}.", errors=errors)


def _encode(predictor: Predictor, sentence: object, index: int, plan: Plan) -> Item | ServiceError:
    kind: type[ServiceError] = InvalidRequestError
    try:
        if isinstance(sentence, str):
            return _read_item(predictor, sentence, plan)
        message = "the item is not a string: send text"
    except InternalError as error:
        return at_item(index, error)
    except NoSuchTokenError as error:
        return no_such_token(error)
    except TOO_LONG as error:
        kind, message = SentenceTooLongError, str(error)
    except InputError as error:
        message = str(error)
    errors = [FieldError(("body", "sentences", index), message)]
    return kind(f"sentences[{index}]: {message}.", errors=errors)


def _read_item(predictor: Predictor, text: str, plan: Plan) -> Item:
    whole = _read(predictor, text, plan)
    if not plan.by_sentence:
        return Item(whole, None)
    spans = split_sentences(text, max_sentences=plan.max_sentences)
    return Item(
        whole,
        [Sentence(span, _read(predictor, text[span.start : span.end], plan)) for span in spans],
    )


def _read(predictor: Predictor, text: str, plan: Plan) -> Sequence[Encoding]:
    """Encodes a text as the plan says."""
    wanted = plan.interventions
    if plan.truncation == "window":
        windows = guard(lambda: predictor.encode_windows(text, max_windows=plan.max_windows))
    else:
        with_tokens = bool(wanted.omit)
        windows = [
            encode_text(predictor, text, truncation=plan.truncation, with_tokens=with_tokens)
        ]
    return [intervene(predictor, window, wanted) for window in windows] if wanted else windows


def at_item(index: int, fault: InternalError) -> InternalError:
    """Adds to an error which item it belongs to."""
    if fault.errors:
        return fault
    message = fault.detail.split(".")[0]
    errors = [FieldError(("body", "sentences", index), message[0].lower() + message[1:])]
    error = InternalError(fault.detail, errors=errors)
    error.__cause__ = fault.__cause__
    return error


def join_faults(faults: Mapping[int, ServiceError]) -> ServiceError:
    """Makes one error of those of the items; what is invalid goes before what is too long."""
    invalid = [fault for fault in faults.values() if isinstance(fault, InvalidRequestError)]
    first, *others = invalid or faults.values()
    if not others:
        return first
    errors = [error for fault in (first, *others) for error in fault.errors]
    detail = f"{first.detail.removesuffix('.')}, and {len(others)} more are wrong too."
    return type(first)(detail, errors=errors)
