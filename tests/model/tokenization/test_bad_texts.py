"""A text on which the real network overflows: each path finds it and answers the others."""

import math
import traceback
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import numpy as np
import pytest
import tokenizers
from tokenizers import Regex, models, pre_tokenizers

from model import AttentionOptions, Attributor, Explanation, Prediction, Predictor
from model.checkpoint.opening import Checkpoint, open_checkpoint
from model.checkpoint.weights import MappedWeights
from model.cli.signals import Interruption
from model.errors import NotFiniteError, TokenizerError
from model.loading import load_predictor
from model.predictor import PathName
from model.tokenization.tokenizer import Tokenizer
from scoring.scorer import Scorer
from tests.builders import tiny_checkpoint, tiny_tokenizer

TEXTS = ["a good film", "a superb film", "bad"]
BAD = 1


def poisoned(folder: Path, name: str, index: Any, value: float) -> Predictor:  # noqa: ANN401
    """Loads a checkpoint of which a parameter changes as it is read."""
    checkpoint = open_checkpoint(tiny_checkpoint(folder))
    read = Checkpoint.load_weights

    def spoiled(self: Checkpoint) -> MappedWeights:
        weights = read(self)
        weights[name] = weights[name].copy()
        weights[name][index] = value
        return weights

    with mock.patch.object(Checkpoint, "load_weights", spoiled):
        return load_predictor(checkpoint, device="cpu", dtype="float32")


@pytest.fixture
def predictor(tmp_path: Path) -> Predictor:
    """The embedding of `superb` is poisoned."""
    token = tiny_tokenizer().token_id("superb")
    # Not all features: the norm of equal numbers is finite, however large they are.
    columns = (token, slice(None, None, 2))
    return poisoned(tmp_path / "tiny", "embeddings.tokens.weight", columns, 1e30)


def test_an_answer_beside_it_is_as_it_is_alone(predictor: Predictor) -> None:
    encodings = [predictor.encode(text, with_tokens=True) for text in TEXTS]
    questions = [AttentionOptions(encoding) for encoding in encodings]

    predicted, explained = predictor.predict_each(encodings), predictor.explain_each(questions)

    for row, encoding in enumerate(encodings):
        prediction, explanation = predicted[row], explained[row]
        if row == BAD:
            assert isinstance(prediction, NotFiniteError)
            assert isinstance(explanation, NotFiniteError)
            continue
        assert isinstance(prediction, Prediction)
        assert isinstance(explanation, Explanation)
        alone = predictor.explain(encoding)
        assert prediction.probabilities == pytest.approx(alone.prediction.probabilities, abs=1e-5)
        np.testing.assert_allclose(explanation.attention, alone.attention, rtol=0, atol=1e-5)
    with pytest.raises(NotFiniteError, match=r"^logits of 1 of 3 texts "):
        predictor.predict(encodings)
    with pytest.raises(NotFiniteError):
        predictor.explain_batch(questions)
    # By gradients it is its own error too.
    attributor = Attributor(predictor.gradients, encodings[BAD])
    assert isinstance(predictor.attempt(lambda: attributor.integrate(range(32))), NotFiniteError)


def test_if_every_text_overflows_the_pass_fails(tmp_path: Path) -> None:
    predictor = poisoned(tmp_path / "tiny", "embeddings.norm.weight", slice(None), math.nan)
    encoding = predictor.encode("good", with_tokens=True)
    with pytest.raises(NotFiniteError):
        predictor.predict_each([encoding])
    with pytest.raises(NotFiniteError):
        predictor.explain_each([AttentionOptions(encoding)])
    with pytest.raises(NotFiniteError):
        predictor.attempt(lambda: predictor.gradients.head_importance(encoding))
    paths: tuple[PathName, ...] = ("fused", "explicit", "gradient")
    for path in paths:
        with pytest.raises(NotFiniteError):
            predictor.probe(path)


def test_weights_that_overflow_are_no_answer(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = predictor._runner.run

    def spoiled(*arguments: Any) -> object:  # noqa: ANN401
        output = run(*arguments)
        output.weights[-1][0, 0, 1] = math.nan
        return output

    monkeypatch.setattr(predictor._runner, "run", spoiled)
    with pytest.raises(NotFiniteError, match=r"^attention weights of 1 of 1 texts are not finite"):
        predictor.explain(predictor.encode("good", with_tokens=True))


def panicking() -> tokenizers.Tokenizer:
    """Panics at a long run of the letter x."""
    backend = tokenizers.Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("(x+x+)+y"), "isolated")
    return backend


def test_a_panic_is_an_error_like_others() -> None:
    tokenizer = Tokenizer(panicking(), max_length=8)
    assert tokenizer.encode("a").input_ids == [1]
    for with_tokens in (False, True):
        with pytest.raises(TokenizerError) as caught:
            tokenizer.encode("x" * 40, with_tokens=with_tokens)
        assert caught.value.kind == "PanicException"
        assert "xx" not in "".join(traceback.format_exception(caught.value))
    assert tokenizer.encode("a").input_ids == [1]


def test_a_panic_costs_its_own_row_alone(checkpoint_folder: Path) -> None:
    scorer = Scorer(checkpoint_folder, device="cpu", dtype="float32", threads=1)
    scorer._predictor.encode_many = Tokenizer(panicking(), max_length=8).encode_many
    _, refused, _ = scorer.encode(["a", "x" * 40, "a"])
    assert isinstance(refused, TokenizerError)
    assert (str(refused), refused.__traceback__) == (str(TokenizerError("PanicException")), None)


class DeadlineError(Exception):
    """What a caller lets the handler of a signal raise."""


@pytest.mark.parametrize(
    "end", [DeadlineError, TimeoutError, MemoryError, Interruption, KeyboardInterrupt, SystemExit]
)
@pytest.mark.parametrize("place", ["tokenizer", "sentences", "pass"])
def test_what_ends_the_work_is_no_fault_of_a_text(
    place: str, end: type[BaseException], checkpoint_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise end(15, "ended")

    scorer = Scorer(checkpoint_folder, device="cpu", threads=1, granularity="sentence")
    if place == "tokenizer":
        backend = type("Ended", (), {"encode_batch_fast": staticmethod(fail)})()
        monkeypatch.setattr(scorer._predictor._tokenizer, "_backend", backend)
    elif place == "sentences":
        monkeypatch.setattr("sentencex.get_sentence_boundaries", fail)
    else:
        monkeypatch.setattr(Predictor, "_predict", fail)
    with pytest.raises(end):
        scorer.score(["good. bad.", "film"])
