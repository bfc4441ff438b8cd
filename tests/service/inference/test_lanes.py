"""Which texts a lane may take, and how many threads."""

import math

import pytest

from service.inference.lanes import SHORT_COME_WITHIN, Lanes


def test_the_last_lane_is_kept_for_short_texts_while_they_come() -> None:
    lanes = Lanes(2)
    assert lanes.longest(0.0) == math.inf
    assert lanes.begin(300, 1, is_all=False) == (1, True)
    assert lanes.longest(0.0) == math.inf  # no short one ever came
    lanes.note_arrival([300, 129], 1.0)
    assert lanes.longest(1.0) == math.inf
    lanes.note_arrival([300, 128], 1.0)
    assert lanes.longest(1.0 + 0.9 * SHORT_COME_WITHIN) == 128
    assert lanes.longest(1.0 + 1.1 * SHORT_COME_WITHIN) == math.inf
    lanes.end(is_long=True)
    assert lanes.longest(1.0) == math.inf


def test_a_single_lane_takes_all() -> None:
    lanes = Lanes(1)
    lanes.note_arrival([1], 0.0)
    assert lanes.longest(0.0) == math.inf


@pytest.mark.parametrize(
    ("tokens", "count", "is_all", "expected"),
    [
        (300, 1, True, (4, True)),
        (300, 3, True, (4, False)),
        (100, 1, True, (4, False)),
        (99, 1, True, (1, False)),
        (300, 1, False, (1, True)),
    ],
)
def test_who_is_alone_has_all_threads(
    tokens: int, count: int, *, is_all: bool, expected: tuple[int, bool]
) -> None:
    lanes = Lanes(4)
    assert lanes.begin(tokens, count, is_all=is_all) == expected
    assert lanes.begin(300, 1, is_all=True) == (1, True)  # it is not alone any more


@pytest.mark.parametrize(("tokens", "threads"), [(15, 1), (16, 2), (31, 3), (32, 4), (500, 4)])
def test_a_short_text_has_no_more_threads_than_it_has_work_for(tokens: int, threads: int) -> None:
    assert Lanes(4, worth_sharing=16).begin(tokens, 1, is_all=True) == (threads, tokens > 128)
