"""Reads texts whole, in windows and by sentences, predicts these parts, and joins the answers."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar, cast

from model.errors import InputError, TokenizerError
from model.explain.interventions import Head, leave_out, switch_off
from model.explain.leave_one_out import LeaveOut, LeaveOutAttribution
from model.explain.units import TextUnits, UnitLevel
from model.predictor import Predictor
from model.tokenization.language import find_warnings
from model.tokenization.sentences import MAX_SENTENCES, find_sentences
from model.tokenization.tokenizer import MAX_WINDOWS
from model.types import EncodedText, Encoding, Prediction, Reading, SentenceResult, Span, TextResult
from model.validation import checked_text

Error = TypeVar("Error", bound=Exception)
Result = TypeVar("Result")
# On a processor, twice the service's budget and more is faster, and nobody waits for a pass.
_PASS_TOKENS = 2_048


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How texts are read."""

    truncation: Reading = "right"  # what happens to a text that is longer than the model reads
    by_sentence: bool = False  # whether each sentence is read too, as a text of its own
    max_windows: int = MAX_WINDOWS  # of a text or sentence
    heads: Sequence[Head] = ()  # that are switched off
    omit: Sequence[int] = ()  # indices of tokens to leave out of each text
    is_english: bool = False  # whether the model reads only English, so that others get a warning
    max_length: int | None = None  # the most tokens of a text that is cut, if the model reads more

    @property
    def intervenes(self) -> bool:
        """Whether the model reads something else than the text, or with fewer heads."""
        return bool(self.heads or self.omit)


def read_each(
    predictor: Predictor, items: Iterable[object], options: ReadingOptions
) -> list[EncodedText | Exception]:
    """Encodes texts; in the place of one that is missing or cannot be read stands its error."""
    return [each for each in read_in_steps(predictor, list(items), options) if each is not None]


def read_in_steps(
    predictor: Predictor, items: Sequence[object], options: ReadingOptions
) -> Iterator[EncodedText | Exception | None]:
    """Yields what `read_each` returns, and None between, so that others can go."""
    truncation = options.truncation
    if truncation == "window" or options.by_sentence or options.omit:
        for item in items:
            try:
                yield (yield from _read_one(predictor, checked_text(item), options))
            except (InputError, TokenizerError, TypeError) as error:
                yield error.with_traceback(None)  # its frames hold texts
        return
    found = predictor.encode_many(items, truncation=truncation, max_length=options.max_length)
    for item, each in zip(items, found, strict=True):
        if isinstance(each, Encoding):
            encoding = _intervene(predictor, each, options) if options.intervenes else each
            warnings = find_warnings(str(item)) if options.is_english else ()
            yield EncodedText([encoding], warnings=warnings)
        else:
            yield each


def _read_one(
    predictor: Predictor, text: str, options: ReadingOptions
) -> Generator[None, None, EncodedText]:
    """Encodes a text, and its sentences if the options ask for them; yields after each part."""
    whole = _read_whole(predictor, text, options)
    warnings = find_warnings(text) if options.is_english else ()
    if not options.by_sentence:
        return EncodedText(whole, warnings=warnings)
    spans = yield from _spans(text, MAX_SENTENCES, len(text))
    parts: list[Sequence[Encoding]] = []
    for span in spans:
        yield
        parts.append(_read_whole(predictor, text[span.start : span.end], options))
    return EncodedText(whole, parts, spans, warnings)


def read_window(
    predictor: Predictor, text: str, options: ReadingOptions, window: int = 0
) -> Encoding:
    """Encodes a text, or one of its windows, with its tokens, for `explain`; never its sentences.

    Raises:
        InputError: it cannot be read so, or has no such window or token.
        TokenizerError: the tokenizer broke on the text.
    """
    if options.truncation == "window":
        encoding = predictor.encode_window(text, window, max_windows=options.max_windows)
    else:
        encoding = predictor.encode(text, truncation=options.truncation, with_tokens=True)
    return _intervene(predictor, encoding, options) if options.intervenes else encoding


def read_units_in_steps(
    predictor: Predictor, text: str, options: ReadingOptions, level: UnitLevel
) -> Generator[None, None, TextUnits]:
    """Encodes a text to leave its units out; yields after each part of it.

    Sentences are always found, and nothing is switched off. It raises as `read_window` does.
    """
    windows = _encode(predictor, text, options, with_tokens=True)
    yield
    read = max(token.end for window in windows for token in window.tokens or ())
    spans = yield from _spans(text, len(text), read)
    return TextUnits(windows, predictor.encode_nothing(), spans, level=level)


def leave_each_out(
    predictor: Predictor,
    text: str,
    *,
    level: UnitLevel = "word",
    label: str | None = None,
    truncation: Reading = "right",
    max_batch_tokens: int = 512,
) -> LeaveOutAttribution:
    """Leaves each unit of a text out, on this thread; see `LeaveOut`.

    Args:
        level: whether words, sentences or tokens are left out.
        label: the class to explain; None means the predicted one.
        max_batch_tokens: tokens that go through the network together.

    Raises:
        ValueError: the model has no such label.
        InputError, TokenizerError: see `read_window`.
    """
    parts = finish(read_units_in_steps(predictor, text, ReadingOptions(truncation), level))
    whole = [prediction for each in parts.whole for prediction in predictor.predict([each])]
    work = LeaveOut(parts, whole, temperature=predictor.info.temperature, label=label)
    units = work.take()
    while units:
        batch = parts.fit(units, max_batch_tokens)
        units = units[len(batch) :]
        without = parts.without(batch)
        work.add(batch, predictor.predict(without) if without else ())
    return finish(work.finish_in_steps())


def join_results(
    predictor: Predictor, text: EncodedText, results: Iterator[Prediction | Error]
) -> TextResult | Error:
    """Takes the results of one text's `encodings` and joins them, or returns the first error.

    It takes them all in any case, so that those of the next text follow.
    """
    if text.sentences is None and len(text.windows) == 1 and not text.warnings:  # the usual case
        result = next(results)
        return TextResult(result) if isinstance(result, Prediction) else result
    parts = [list(islice(results, len(part))) for part in (text.windows, *(text.sentences or ()))]
    for result in chain.from_iterable(parts):
        if not isinstance(result, Prediction):
            return result
    whole, *sentences = map(predictor.join, cast("list[list[Prediction]]", parts))
    if text.warnings:
        whole = whole.warned(*text.warnings)
    if text.sentences is None:
        return TextResult(whole)
    return TextResult(whole, list(map(SentenceResult, text.spans, sentences)))


def predict_each(
    predictor: Predictor,
    texts: Sequence[EncodedText | Exception],
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> list[TextResult | Exception]:
    """Predicts what `read_each` returns, in passes of texts of similar length.

    The same list always has the same answers, bit for bit, on the same kind of machine. `advance`
    gets the number of encodings of each pass. It raises if the device fails for a valid text too.
    """
    encodings = [each for text in texts if isinstance(text, EncodedText) for each in text.encodings]
    found: dict[int, Prediction | Exception] = {}
    for indices in passes(predictor, encodings):
        part = predictor.predict_each([encodings[index] for index in indices])
        found.update(zip(indices, part, strict=True))
        advance(len(indices))
    parts = map(found.__getitem__, range(len(encodings)))
    return [
        join_results(predictor, text, parts) if isinstance(text, EncodedText) else text
        for text in texts
    ]


def passes(predictor: Predictor, encodings: Sequence[Encoding]) -> Iterator[list[int]]:
    """Yields the indices of each pass, the shortest texts first."""
    most_tokens = max(_PASS_TOKENS, predictor.batch_tokens)
    indices: list[int] = []
    for length, index in sorted((len(each.input_ids), at) for at, each in enumerate(encodings)):
        if indices and length * (len(indices) + 1) > most_tokens:
            yield indices
            indices = []
        indices.append(index)
    if indices:
        yield indices


def _spans(text: str, max_sentences: int, end: int) -> Generator[None, None, list[Span]]:
    """Finds the sentences of a text that begin before `end`; yields after each block and each."""
    spans: list[Span] = []
    for span in find_sentences(text, max_sentences=max_sentences):
        yield
        if span is not None and span.start < end:
            spans.append(span)
        elif span is not None:
            break
    return spans


def finish(steps: Generator[None, None, Result]) -> Result:
    """Takes all steps and returns their result."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: Result = end.value
        return result


def _encode(
    predictor: Predictor, text: str, options: ReadingOptions, *, with_tokens: bool
) -> Sequence[Encoding]:
    if options.truncation != "window":
        end, most = options.truncation, options.max_length
        encoding = predictor.encode(text, truncation=end, with_tokens=with_tokens, max_length=most)
        return [encoding]
    return predictor.encode_windows(text, max_windows=options.max_windows, with_tokens=with_tokens)


def _read_whole(predictor: Predictor, text: str, options: ReadingOptions) -> Sequence[Encoding]:
    windows = _encode(predictor, text, options, with_tokens=bool(options.omit))
    if options.intervenes:
        return [_intervene(predictor, window, options) for window in windows]
    return windows


def _intervene(predictor: Predictor, encoding: Encoding, options: ReadingOptions) -> Encoding:
    if options.omit:
        encoding = leave_out(encoding, options.omit)
    info = predictor.info
    return switch_off(encoding, options.heads, num_layers=info.num_layers, num_heads=info.num_heads)
