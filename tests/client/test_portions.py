"""Any number of sentences, cut into requests by the limits of the service."""

import itertools
import json
import sys
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headlight_client import FieldError, InvalidRequestError, ItemError, Problem
from headlight_client.portions import Limits, Portions, limits_of, progress_of
from tests.client.scripted import prediction

texts = st.lists(st.text(max_size=12) | st.none(), max_size=20)


def portions_of(sentences: Sequence[str | None], on_error: str = "request") -> Portions:
    return Portions(sentences, truncation="right", on_error=on_error)


@given(texts, st.integers(1, 7), st.integers(60, 160))
@example(["\ud800" * 20, "a"], 2, 70)
@example([], 1, 60)
def test_every_sentence_is_in_one_request_that_keeps_the_limits(
    sentences: list[str | None], most: int, size: int
) -> None:
    portions = portions_of(sentences)
    cut = portions.cut(Limits(most, size))
    assert [index for portion in cut for index in portion] == list(range(len(sentences)))
    sent: list[str | None] = []
    bodies = [portions.call(portion).body or b"" for portion in cut]
    for portion, body in zip(cut, bodies, strict=True):
        sent += json.loads(body)["sentences"]
        assert len(portion) <= most
        assert len(body) <= size or len(portion) == 1
    assert sent == sentences
    # No two neighbours would have fitted into one request.
    for first, second in itertools.pairwise(cut):
        together = portions.call(range(first.start, second.start + 1)).body or b""
        assert len(first) == most or len(together) > size
    assert portions.fit(Limits(most, size)) == (len(cut) <= 1)


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.integers(1, 5))
def test_what_is_answered_is_not_asked_again(answered: list[bool], most: int) -> None:
    portions = portions_of(["a"] * len(answered))
    for index, is_answered in enumerate(answered):
        if is_answered:
            portions.take(range(index, index + 1), [prediction(str(index))])
    rest = [index for index, is_answered in enumerate(answered) if not is_answered]
    cut = portions.cut(Limits(most))
    assert [index for portion in cut for index in portion] == rest
    for portion in cut:
        portions.take(portion, [prediction(str(index)) for index in portion])
    assert [each.label for each in portions.result() if not isinstance(each, ItemError)] == [
        str(index) for index in range(len(answered))
    ]


def test_requests_at_once_share_the_work() -> None:
    portions = portions_of(["x" * 60] * 10)  # 63 bytes each as JSON
    limits = limits_of({"max_work_tokens": 300, "max_queue_tokens": 900})
    assert limits == Limits(work_tokens=300)
    assert [len(portion) for portion in portions.cut(limits)] == [3, 3, 3, 1]
    assert [len(portion) for portion in portions.cut(limits, at_once=2)] == [1] * 10
    assert portions.cut(Limits(), at_once=2) == [range(10)]  # one request shares with no other


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({}, [10]),
        ({"truncation": "window"}, [3, 3, 3, 1]),
        ({"granularity": "sentence"}, [2, 2, 2, 2, 2]),
    ],
)
def test_what_is_read_again_counts_four_times(options: dict[str, str], counts: list[int]) -> None:
    limits = limits_of({"max_queue_tokens": 1000})
    portions = Portions(["x" * 60] * 10, **options)
    assert [len(portion) for portion in portions.cut(limits)] == counts


@pytest.mark.parametrize(
    ("told", "limits"),
    [
        ({}, Limits()),
        ({"max_sentences": 5, "max_body_bytes": 99, "rate_limit": None}, Limits(5, 99)),
        ({"max_sentences": None, "max_body_bytes": "many"}, Limits()),
        ({"max_sentences": 0, "max_body_bytes": -1}, Limits()),
    ],
)
def test_limits(told: dict[str, float | str | None], limits: Limits) -> None:
    assert limits_of(told) == limits


BLANK = FieldError(("body", "sentences", 1), "the text is blank")
MOVED = FieldError(("body", "sentences", 6), "the text is blank")
OTHER = FieldError(("body", "truncation"), "is wrong")


def problem(
    *errors: FieldError, status: int = 422, detail: str = "sentences[1]: It is."
) -> Problem:
    return Problem("invalid-request", status, "T", detail, errors)


def test_an_index_in_an_error_counts_from_the_first_of_all() -> None:
    portions = portions_of(["a"] * 8)
    portions.cut(Limits(5))
    portions.take(range(5), [prediction("x")] * 5)
    refused = InvalidRequestError(problem(BLANK, OTHER), request_id="id")
    with pytest.raises(InvalidRequestError) as caught:
        portions.fail(range(5, 8), refused)
    error = caught.value
    assert error.errors == (MOVED, OTHER)
    assert error.detail == "sentences[6]: It is."
    assert error.part is not None
    assert (error.part.start, error.part.stop, error.part.total) == (5, 8, 8)
    assert error.part.predictions == (*[prediction("x")] * 5, None, None, None)
    assert str(error) == (
        "422 invalid-request: sentences[6]: It is. (sentences 5 to 7 of 8 failed; the 5 answers "
        "so far are in part.predictions of this error)"
    )
    assert len(repr(error.part)) < 100


def test_an_error_of_an_item_is_moved_too() -> None:
    portions = portions_of(["a"] * 7, "item")
    item = ItemError("invalid-request", 422, "T", "sentences[1]: It is.", (BLANK,))
    portions.take(range(5, 7), [prediction("x"), item])
    (_, moved) = portions.result()
    assert isinstance(moved, ItemError)
    assert (moved.detail, moved.errors) == ("sentences[6]: It is.", (MOVED,))


def too_much(fits: dict[str, int] | None) -> InvalidRequestError:
    return InvalidRequestError(Problem("too-much-work", 413, "T", "D", fits=fits), request_id="id")


@pytest.mark.parametrize(
    ("fits", "counts"), [(None, [5, 5]), ({"tokens": 210}, [2] * 5), ({"steps": 1}, [5, 5])]
)
def test_what_is_too_much_work_is_halved_or_as_small_as_fits(
    fits: dict[str, int] | None, counts: list[int]
) -> None:
    portions, limits = portions_of(["x" * 60] * 10), Limits()
    for expected in (counts, None):
        (portion, *_) = portions.cut(limits)
        error = too_much(fits)
        with pytest.raises(InvalidRequestError):
            portions.fail(portion, error)
        assert portions.may_divide(error)
        if expected is not None:
            assert [len(each) for each in portions.cut(limits)] == expected


def test_one_sentence_that_is_too_much_work_is_not_divided() -> None:
    portions, error = portions_of(["x" * 60]), too_much({"tokens": 5})
    with pytest.raises(InvalidRequestError):
        portions.fail(range(1), error)
    assert not portions.may_divide(error)


@pytest.mark.parametrize("on_error", ["item", "request"])
def test_a_sentence_larger_than_any_request(on_error: str) -> None:
    portions = portions_of(["a", "b" * 500, "c"], on_error)
    cut = portions.cut(Limits(5, 200))
    assert cut == [range(1), range(1, 2), range(2, 3)]
    refused = InvalidRequestError(
        Problem("payload-too-large", 413, "T", "too large"), request_id="id"
    )
    if on_error == "request":
        with pytest.raises(InvalidRequestError):
            portions.fail(cut[1], refused)
        return
    portions.fail(cut[1], refused)
    assert portions.result() == [ItemError("payload-too-large", 413, "T", "too large")]


@pytest.mark.parametrize("shown", [True, False])
def test_lines_of_progress(
    shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    for total in (0, 1000):
        with progress_of(total, shown=shown) as progress:
            for _ in range(200):
                progress.update(total // 200)
    printed = [f"headlight: {done} of 1000 sentences" for done in range(100, 1001, 100)]
    assert capsys.readouterr().err.splitlines() == printed * shown


def test_tqdm_counts_to_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_of(12, shown=True) as progress:
        progress.update(12)
    assert "12/12" in capsys.readouterr().err
