"""SIGINT and SIGTERM: noted, raised, and given back to whoever had them."""

import signal

import pytest

from model.cli.signals import Interruption, noted_signals, raised_signals

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@BOTH
def test_a_signal_is_noted_and_nothing_else_happens(number: signal.Signals) -> None:
    before = handlers()
    with noted_signals() as stop:
        assert stop() is None
        signal.raise_signal(number)
        assert stop() == number
        assert stop() == number
        # A second one ends the process as if nobody had asked for it.
        assert signal.getsignal(number) == signal.SIG_DFL
    assert handlers() == before


def test_the_first_of_two_signals_counts() -> None:
    with noted_signals() as stop:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert stop() == signal.SIGTERM


@BOTH
def test_a_signal_is_raised_where_it_comes(number: signal.Signals) -> None:
    before = handlers()

    @raised_signals(lambda: "stopped")
    def work() -> None:
        signal.raise_signal(number)
        raise AssertionError("it went on")

    with pytest.raises(Interruption, match="stopped") as raised:
        work()
    assert raised.value.signal == number
    assert handlers() == before


def test_handlers_are_given_back_after_an_error() -> None:
    before = handlers()
    with pytest.raises(ZeroDivisionError), noted_signals():
        raise ZeroDivisionError
    assert handlers() == before
