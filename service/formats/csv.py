"""Views of attention as a table, a line for each weight, to be read by whatever reads CSV."""

import csv
import io
from collections.abc import Sequence

from service.formats.json import format_weights
from service.formats.views import View

COLUMNS = ("sentence", "layer", "head", "query", "key", "query_text", "key_text", "weight")


def csv_lines(view: View, number: int) -> bytes:
    """The lines of one view, without the header.

    Args:
        view: what is answered.
        number: of the sentence.

    Raises:
        ValueError: a weight is not a number from 0 to 1.
    """
    texts = [_quoted(token.text) for token in view.tokens]
    # All that differs between the keys of a row but for the weight.
    columns = list(enumerate(texts))
    weights = format_weights(view.attention)  # [L, H, W, W]
    lines = []
    for layer, of_layer in zip(view.layer_names, weights, strict=True):
        for head, of_head in zip(view.head_names, of_layer, strict=True):
            place = f"{number},{_number(layer)},{_number(head)}"
            for query, row in enumerate(of_head.tolist()):
                asking = texts[query]
                lines += [
                    f"{place},{query},{key},{asking},{text},{weight.decode('ascii')}\r\n"
                    for (key, text), weight in zip(columns, row, strict=True)
                ]
    return "".join(lines).encode("utf-8")


def csv_table(parts: Sequence[bytes]) -> bytes:
    """The whole table: a header and the lines of each view."""
    return b"".join([",".join(COLUMNS).encode("ascii"), b"\r\n", *parts])


def _number(number: int | None) -> str:
    return "" if number is None else str(number)


def _quoted(text: str) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow([text])
    return buffer.getvalue()
