"""Predicts many encodings, in passes of texts of similar length."""

from collections.abc import Callable, Iterator, Sequence

from model.network.prediction import Prediction
from model.predictor import Predictor
from model.tokenization.tokenizer import Encoding

# On a processor, twice the service's budget and more is faster, and nobody waits for a pass.
_PASS_TOKENS = 2_048


def predict_in_passes(
    predictor: Predictor,
    encodings: Sequence[Encoding],
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Prediction | Exception]:
    """Returns the prediction of each encoding in order, or the error of one that fails.

    The same list always has the same answers, bit for bit, on the same kind of machine.

    Args:
        advance: called with the number of encodings of each pass, when it is done.

    Raises:
        Exception: the device fails for a valid text too.
    """
    results: list[Prediction | Exception | None] = [None] * len(encodings)
    for indices in _passes(encodings, max(_PASS_TOKENS, predictor.batch_tokens)):
        part = predictor.predict_each([encodings[index] for index in indices])
        for index, result in zip(indices, part, strict=True):
            results[index] = result
        advance(len(indices))
    return [result for result in results if result is not None]  # each one is in a pass


def _passes(encodings: Sequence[Encoding], most_tokens: int) -> Iterator[list[int]]:
    """Yields the indices of each pass, the shortest texts first."""
    indices: list[int] = []
    for length, index in sorted((len(each.input_ids), at) for at, each in enumerate(encodings)):
        if indices and length * (len(indices) + 1) > most_tokens:
            yield indices
            indices = []
        indices.append(index)
    if indices:
        yield indices
