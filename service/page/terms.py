"""Explains the terms of attention for people, each with the function that computes it."""

import html
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

from model import reference


@dataclass(frozen=True, slots=True)
class Term:
    """One step from a query and a key to the result of a layer.

    Args:
        anchor: its place on the page, after `#`.
        name: as the literature has it.
        text: what it means.
        function: computes it, in the reference.
    """

    anchor: str
    name: str
    text: str
    function: Callable[..., Any]


TERMS: Sequence[Term] = (
    Term(
        "heads",
        "Heads",
        "A layer projects each token to a query, a key and a value. Each head has its own part of "
        "these projections, so each decides where to look. A query says what a token looks "
        "for, a key what a token offers, a value what it passes on.",
        reference.split_heads,
    ),
    Term(
        "scaled-dot-product",
        "Scaled dot product",
        "The score of a pair is the dot product of the query of the one token and the key of the "
        "other: both multiplied feature by feature, and added up. It is divided by the root of the "
        "number of features. Without that, scores would grow with this number, and the softmax "
        "would put nearly all weight on one token.",
        reference.scaled_dot_product_score,
    ),
    Term(
        "softmax",
        "Softmax",
        "The softmax turns the scores of one query with all keys into weights. Each weight is e to "
        "the power of its score, divided by the sum of these powers. So weights are between 0 and "
        "1, and a row sums to 1. The largest score is subtracted first, which changes no weight "
        "and keeps the powers small.",
        reference.softmax,
    ),
    Term(
        "weighted-sum",
        "Weighted sum",
        "The result of a head for a token is the sum of the values of all tokens, each times its "
        "weight. A large weight moves little if the value is small.",
        reference.multi_head_attention,
    ),
    Term(
        "concatenation",
        "Concatenation",
        "The results of all heads of a layer stand one after the other in one vector. Head 0 has "
        "the first places, head 1 the next ones. The output projection then mixes all of them.",
        reference.concatenate_heads,
    ),
)


def as_page(template: str, *, version: str) -> str:
    """Writes the terms into the template of their page."""
    return Template(template).substitute(version=version, terms="\n".join(map(_section, TERMS)))


def _section(term: Term) -> str:
    code = html.escape(inspect.getsource(term.function).rstrip())
    name = html.escape(term.function.__name__)
    return (
        f'    <section id="{term.anchor}">\n'
        f"      <h2>{html.escape(term.name)}</h2>\n"
        f"      <p>{html.escape(term.text)}</p>\n"
        f'      <pre class="source" tabindex="0" role="region" aria-label="{name} of '
        f'model/network/reference.py"><code>{code}</code></pre>\n'
        f"    </section>"
    )
