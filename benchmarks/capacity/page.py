"""Writes the tables and the picture of the guide from what was measured.

    python -m benchmarks.capacity.page

Each table stands in docs/guides/capacity.md between a comment with its name and the next comment.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.capacity import record
from benchmarks.capacity.pictures import draw_day
from benchmarks.capacity.record import MEASURED
from benchmarks.capacity.tables import tables, the_day
from benchmarks.errors import BenchmarkError
from benchmarks.servers import ROOT
from model.cli.arguments import LineParser

GUIDE = ROOT / "docs" / "guides" / "capacity.md"
PICTURE = ROOT / "docs" / "images" / "capacity-day.svg"


def filled(page: str, contents: dict[str, str]) -> str:
    """Puts tables into a page.

    Args:
        page: with a comment before each table, and one behind it.
        contents: of the tables, by name.

    Raises:
        BenchmarkError: the page has no place for one.
    """
    for name, content in contents.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)"
        place = re.search(pattern, page, flags=re.DOTALL)
        if place is None:
            raise BenchmarkError(f"{GUIDE}: has no place for the table {name}")
        page = f"{page[: place.end(1)]}\n{content}\n\n{page[place.start(2) :]}"
    return page


def parser() -> argparse.ArgumentParser:
    """Builds the parser of the command line."""
    options = LineParser(prog="benchmarks.capacity.page", description=__doc__, allow_abbrev=False)
    options.add_argument(
        "--measured",
        type=Path,
        default=MEASURED,
        metavar="FILE",
        help="what make capacity wrote (default: what ships)",
    )
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrites the tables of the guide and its picture.

    Args:
        arguments: of the command line; those of the process if None.

    Returns:
        0 if it worked; 1 if not, with the reason on stderr.
    """
    given = parser().parse_args(arguments)
    try:
        measured = record.read(given.measured)
        page = filled(GUIDE.read_text(encoding="utf-8"), tables(measured))
        draw_day(*the_day(measured), PICTURE)
        aside = GUIDE.with_suffix(".new")
        aside.write_text(page, encoding="utf-8")
        aside.replace(GUIDE)
    except (BenchmarkError, OSError) as error:
        sys.stderr.write(f"benchmarks.capacity.page: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
