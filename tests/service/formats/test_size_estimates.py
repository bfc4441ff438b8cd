"""Estimates of answers: never too small, and not far too large, by what the writers write."""

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest

from model import ModelInfo, Prediction, Token
from model.explain.pictures import draw, svg_picture
from model.explain.views import View
from model.types import Strongest
from service.formats.json import attention_body, join_list
from service.formats.npz import npz_archive, npz_arrays
from service.formats.size_estimates import Form, estimate_size

INFO = ModelInfo(
    "a-name-of-usual-length", "0123456789ab", "encoder", ("negative", "positive"),
    12, 12, 768, 110_000_000, 512, 1.5, "cpu", "eager", "float32", "set by the caller", (),
)  # fmt: skip
PREDICTION = Prediction("positive", 0.75, {"negative": 0.25, "positive": 0.75}, 512, truncated=True)
WORDS = ["[CLS]", "the", "plot", "##s", "wonderful", ",", "but", "a", "\u00e9t\u00e9", '"', "&"]
ODD = ["\x00\x07", "\U0001f600", "\ud7ff<", "&&&"]


def views(
    sentences: list[list[str]], layers: int, heads: int, *, side: int | None = None
) -> list[View]:
    chance = np.random.default_rng(0)

    def strongest(length: int) -> Strongest | None:
        if side is None:
            return None
        shape = (layers, heads, length)
        return Strongest(np.full(shape, length - 1, np.int32), chance.random(shape, np.float32))

    return [
        View(
            "raw",
            PREDICTION,
            [
                Token(text, 99_990, 99_999, special=False, word=place)
                for place, text in enumerate(s)
            ],
            tuple(range(layers)),
            tuple(range(heads)),
            chance.random((layers, heads, shown, shown), np.float32),
            strongest=strongest(len(s)),
        )
        for s in sentences
        for shown in [len(s) if side is None else min(side, len(s))]
    ]


def write(form: Form, dtype: str, given: list[View], *, listed: bool) -> bytes | memoryview:
    if form == "npz":
        arrays = [npz_arrays(INFO, view, dtype=dtype) for view in given]
        return npz_archive(arrays, numbered=listed)
    if form == "svg":
        return svg_picture([draw(view, f"{INFO.name} {INFO.version}") for view in given])
    parts = [attention_body(INFO, view) for view in given]
    return join_list(parts) if listed else parts[0]


def measure(form: Form, dtype: str, given: list[View], *, listed: bool) -> tuple[int, int]:
    """Returns the bytes of an answer, and those that making it takes, the weights among them."""
    write(form, dtype, given, listed=listed)  # what is made once, such as tables
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    answer = write(form, dtype, given, listed=listed)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return len(answer), peak - before + sum(view.attention.nbytes for view in given)


FORMS: list[Any] = [
    *(("json", "float32"), ("npz", "float32"), ("npz", "float16"), ("svg", "float32"))
]


@pytest.mark.parametrize(("form", "dtype"), FORMS)
@pytest.mark.parametrize("words", [["a"], ODD, ODD * 9])
def test_no_answer_is_larger_whatever_its_tokens(form: Form, dtype: str, words: list[str]) -> None:
    answer = write(form, dtype, views([words], 2, 3), listed=False)
    float_bytes = np.dtype(dtype).itemsize
    size = estimate_size(form, [words], maps=6, float_bytes=float_bytes, listed=False)
    assert len(answer) <= size.answer <= size.making


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(
    ("form", "dtype", "length", "side"),
    [
        *((*form, 40, None) for form in FORMS),
        *((*form, *size) for form in FORMS[:3] for size in ((5, 8), (300, 48))),
    ],
)
def test_a_large_answer_is_nearly_as_large(
    form: Form, dtype: str, length: int, side: int | None, *, listed: bool
) -> None:
    """Also with thumbnails of a side, which only JSON and NPZ have."""
    sentences = [(WORDS * length)[:length]] * (4 if listed else 1)
    layers, heads = (1, 1) if form == "svg" else (4, 8)
    given = views(sentences, layers, heads, side=side)
    size = estimate_size(
        form,
        sentences,
        maps=layers * heads,
        float_bytes=np.dtype(dtype).itemsize,
        listed=listed,
        sides=None if side is None else [min(side, length)] * len(sentences),
    )
    written, taken = measure(form, dtype, given, listed=listed)
    assert written <= size.answer <= 1.5 * written + 20_000
    assert taken <= size.making
    if side is None:
        assert size.making <= 1.5 * taken + 600_000
