"""Changes how the model reads a text: leaves tokens out of it, and switches heads off.

Switching heads off follows Michel, Levy and Neubig 2019; leaving tokens out follows Li, Monroe and
Jurafsky 2016, "Understanding neural networks through representation erasure".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from model.errors import NoSuchPartError
from model.types import Encoding


@dataclass(frozen=True, slots=True)
class Head:
    """A head, or all heads of a layer if `head` is None; both are counted from 0."""

    layer: int
    head: int | None = None


def switch_off(
    encoding: Encoding, heads: Sequence[Head], *, num_layers: int, num_heads: int
) -> Encoding:
    """Returns a text that is read without some heads: their outputs count as 0.

    The attention weights of these heads are computed as before; nothing reads their result.

    Raises:
        IndexError: the model has no such layer or head.
    """
    if not heads:
        return encoding
    mask = [[1.0] * num_heads for _ in range(num_layers)]
    for one in heads:
        check_index(one.layer, num_layers, "layer")
        if one.head is None:
            mask[one.layer] = [0.0] * num_heads
        else:
            check_index(one.head, num_heads, "head")
            mask[one.layer][one.head] = 0.0
    return replace(encoding, head_mask=tuple(map(tuple, mask)))


def leave_out(encoding: Encoding, indices: Sequence[int]) -> Encoding:
    """Returns a text without some of its tokens; those behind them move up, with their offsets.

    Args:
        encoding: the text, encoded with its tokens.
        indices: numbers of tokens from 0, special ones counted; may name a token twice.

    Raises:
        NoSuchPartError: there is no such token, it is special, or no other one is left.
        ValueError: the text was encoded without its tokens.
    """
    if encoding.tokens is None:
        raise ValueError("which tokens there are is not known: encode with with_tokens=True")
    tokens = encoding.tokens
    for place, index in enumerate(indices):
        if not 0 <= index < len(tokens):
            raise NoSuchPartError(f"the text has tokens 0 to {len(tokens) - 1}", place)
        if tokens[index].special:
            ours = [at for at, token in enumerate(tokens) if not token.special]
            raise NoSuchPartError(
                f"token {index} is special and stays: the text's own are {ours[0]} to {ours[-1]}",
                place,
            )
    left_out = set(indices)
    kept = [at for at in range(len(tokens)) if at not in left_out]
    if all(tokens[at].special for at in kept):
        raise NoSuchPartError("nothing of the text would be left: keep at least one token", 0)
    return replace(
        encoding,
        input_ids=[encoding.input_ids[at] for at in kept],
        tokens=tuple(tokens[at] for at in kept),
    )


def check_index(index: int, count: int, kind: str, *, owner: str = "the model") -> None:
    """Raises IndexError for a layer, head or token that its owner does not have."""
    if not 0 <= index < count:
        raise IndexError(f"{kind} {index} does not exist: {owner} has 0 to {count - 1}")
