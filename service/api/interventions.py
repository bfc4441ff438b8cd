"""Applies what a request changes about how its texts are read: heads off, tokens left out."""

from collections.abc import Sequence
from dataclasses import dataclass

from model import Encoding, Head, Predictor, leave_out, switch_off
from model.errors import NoSuchTokenError
from service.errors import FieldError, InvalidRequestError


@dataclass(frozen=True, slots=True)
class Interventions:
    """What a request changes about how its texts are read.

    Args:
        heads: that are switched off.
        omit: numbers of the tokens that are left out.
    """

    heads: Sequence[Head] = ()
    omit: Sequence[int] = ()

    def __bool__(self) -> bool:
        """Whether anything is changed."""
        return bool(self.heads or self.omit)


def interventions_of(request: object) -> Interventions:
    """Returns what a checked request of any kind changes; most kinds change nothing."""
    heads = [Head(one.layer, one.head) for one in getattr(request, "head_mask", None) or ()]
    return Interventions(heads, getattr(request, "omit", None) or ())


def intervene(predictor: Predictor, encoding: Encoding, wanted: Interventions) -> Encoding:
    """Returns the text as it is read with the changes.

    Args:
        predictor: its heads were checked with the request.
        encoding: with its tokens if any are left out.
        wanted: what is changed.

    Raises:
        NoSuchTokenError: a token cannot be left out.
    """
    if wanted.omit:
        encoding = leave_out(encoding, wanted.omit)
    info = predictor.info
    return switch_off(encoding, wanted.heads, num_layers=info.num_layers, num_heads=info.num_heads)


def no_such_token(fault: NoSuchTokenError) -> InvalidRequestError:
    """Makes the answer to a token that cannot be left out."""
    errors = [FieldError(("body", "omit", fault.place), str(fault))]
    return InvalidRequestError(f"omit.{fault.place}: {fault}.", errors=errors)
