"""Writes a sheet of a workbook as CSV: a script that `workbook` starts in a process of its own.

The status is 1 for a damaged workbook, 2 if standard error says why no sheet is read, 3 for limits.
"""

import csv
import sys
from contextlib import suppress
from datetime import date, time
from io import BytesIO, TextIOWrapper

from python_calamine import CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

_SHOWN = 20


def main(content: bytes, wanted: str | None = None) -> None:
    """Writes the sheet of a name, or the only one that is shown and holds values."""
    limit(len(content))
    book = CalamineWorkbook.from_filelike(BytesIO(content))
    sheets = [each for each in book.sheets_metadata if each.typ == SheetTypeEnum.WorkSheet]
    if wanted is None:
        shown = [each.name for each in sheets if each.visible == SheetVisibleEnum.Visible]
        found = [name for name in shown if book.get_sheet_by_name(name).start is not None]
        fault = f"has {len(found) or 'no'} sheets with content"
    else:
        found = [each.name for each in sheets if each.name == wanted]
        fault = f"has no sheet named {wanted!r}"
    if len(found) != 1:
        names = map(repr, found or [each.name for each in sheets][:_SHOWN])
        sys.stderr.write(f"{fault} ({', '.join(names)}): choose one with --sheet NAME")
        sys.exit(2)
    with TextIOWrapper(sys.stdout.buffer, "utf-8", newline="") as output:
        # All is quoted, for the sake of carriage returns; a row without values is a blank line.
        writer = csv.writer(output, lineterminator="\n", quoting=csv.QUOTE_ALL)
        for row in book.get_sheet_by_name(found[0]).iter_rows():
            cells = [spell(cell) for cell in row]
            writer.writerow(cells if any(cells) else [])


def limit(size: int) -> None:
    """Limits what a workbook of so many bytes takes of the machine, where the system can."""
    with suppress(ImportError):  # Windows
        import resource

        for kind, most in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_CPU, 120),  # seconds
            (resource.RLIMIT_FSIZE, 2**30),  # of the CSV
            (resource.RLIMIT_AS, 2**29 + 16 * size),  # texts unpack to about five times their size
        ):
            with suppress(ValueError, OSError):  # less is allowed already, or macOS cannot
                resource.setrlimit(kind, (most, most))


def spell(cell: object) -> str:
    """Returns a value as text; that of an error is empty."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    if isinstance(cell, date | time):
        return cell.isoformat()
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


if __name__ == "__main__":
    try:
        main(sys.stdin.buffer.read(), *sys.argv[1:])
    except (MemoryError, OSError):
        sys.exit(3)
