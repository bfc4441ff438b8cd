"""Explains the terms of attention, each with its formula and the code that computes it."""

import html
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

from model import reference
from model.network.layers import Embeddings


def _name(text: str, low: str = "", high: str = "") -> str:
    """Writes a name in MathML, with an index and a superscript."""
    tag = {(0, 0): "", (1, 0): "msub", (0, 1): "msup", (1, 1): "msubsup"}[bool(low), bool(high)]
    parts = "".join(f"<mi>{part}</mi>" for part in (text, low, high) if part)
    return f"<{tag}>{parts}</{tag}>" if tag else parts


def _sign(text: str) -> str:
    return f"<mo>{text}</mo>"


def _fraction(above: str, below: str) -> str:
    return f"<mfrac><mrow>{above}</mrow><mrow>{below}</mrow></mfrac>"


_PRODUCT = _fraction(
    _name("Q", "h") + _name("K", "h", "T"), f"<msqrt>{_name('D')}</msqrt>"
)  # of queries and keys
_COMMA, _EQUALS = _sign(","), _sign("=")
_PROJECTIONS = _COMMA.join(
    _name(each, "h") + _EQUALS + _name("X") + _name("W", "h", each) for each in "QKV"
)


@dataclass(frozen=True, slots=True)
class Term:
    """One step from a query and a key to the result of a layer.

    Args:
        anchor: its place on the page, after `#`.
        name: as the literature has it.
        text: what it means.
        formula: in MathML.
        functions: compute it.
    """

    anchor: str
    name: str
    text: str
    formula: str
    functions: Sequence[Callable[..., Any]]


TERMS: Sequence[Term] = (
    Term(
        "positions",
        "Positions",
        "Attention by itself does not see the order of the tokens. So the vector of a token is the "
        "sum of what its word means (E) and of where it stands (P), both learned, and normalised.",
        _name("X", "t")
        + _EQUALS
        + _name("LayerNorm")
        + _sign("(")
        + _name("E", "token(t)")
        + _sign("+")
        + _name("P", "t")
        + _sign(")"),
        (Embeddings.forward, Embeddings.position_embeddings),
    ),
    Term(
        "heads",
        "Heads",
        "A layer projects each token to a query, a key and a value. Each head has its own part of "
        "these projections, so each decides where to look. A query says what a token looks "
        "for, a key what a token offers, a value what it passes on.",
        _PROJECTIONS,
        (reference.project, reference.split_heads),
    ),
    Term(
        "scaled-dot-product",
        "Scaled dot product",
        "The score of a pair is the dot product of the query of the one token and the key of the "
        "other: both multiplied feature by feature, and added up. It is divided by the root of the "
        "number of features. Without that, scores would grow with this number, and the softmax "
        "would put nearly all weight on one token.",
        _name("S", "h") + _EQUALS + _PRODUCT,
        (reference.scaled_dot_product_score,),
    ),
    Term(
        "softmax",
        "Softmax",
        "The softmax turns the scores of one query with all keys into weights. Each weight is e to "
        "the power of its score, divided by the sum of these powers. So weights are between 0 and "
        "1, and a row sums to 1. The largest score is subtracted first, which changes no weight "
        "and keeps the powers small.",
        _name("A", "qk")
        + _EQUALS
        + _fraction(
            f"<msup><mi>e</mi>{_name('S', 'qk')}</msup>",
            f"<munder>{_sign('∑')}<mi>j</mi></munder><msup><mi>e</mi>{_name('S', 'qj')}</msup>",
        ),
        (reference.softmax,),
    ),
    Term(
        "weighted-sum",
        "Weighted sum",
        "The result of a head for a token is the sum of the values of all tokens, each times its "
        "weight. A large weight moves little if the value is small.",
        _name("head", "h")
        + _EQUALS
        + _name("softmax")
        + f"<mrow>{_sign('(')}{_PRODUCT}{_sign(')')}</mrow>"
        + _name("V", "h"),
        (reference.multi_head_attention,),
    ),
    Term(
        "concatenation",
        "Concatenation",
        "The results of all heads of a layer stand one after the other in one vector. Head 0 has "
        "the first places, head 1 the next ones. The output projection then mixes all of them.",
        _name("Y")
        + _EQUALS
        + _sign("[")
        + _COMMA.join((_name("head", "0"), _sign("…"), _name("head", "H\u22121")))
        + _sign("]")
        + _name("W", high="O"),
        (reference.concatenate_heads,),
    ),
)


def as_page(template: str, *, version: str) -> str:
    """Writes the terms into the template of their page."""
    return Template(template).substitute(version=version, terms="\n".join(map(_section, TERMS)))


def _section(term: Term) -> str:
    sources = [textwrap.dedent(inspect.getsource(each)).rstrip() for each in term.functions]
    names = html.escape(" and ".join(each.__name__ for each in term.functions))
    module = term.functions[0].__module__.replace(".", "/")
    return (
        f'    <section id="{term.anchor}">\n'
        f"      <h2>{html.escape(term.name)}</h2>\n"
        f"      <p>{html.escape(term.text)}</p>\n"
        f'      <math display="block">{term.formula}</math>\n'
        f'      <pre class="source" tabindex="0" role="region" aria-label="{names} of '
        f'{module}.py"><code>{html.escape(chr(10).join(sources))}</code></pre>\n'
        f"    </section>"
    )
