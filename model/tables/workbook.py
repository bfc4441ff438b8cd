"""Turns a workbook of Excel (.xlsx) into CSV."""

import csv
import io
import warnings
import zipfile
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from model.errors import TableError, install_hint


def workbook_to_csv(path: str | Path, file: BinaryIO) -> BinaryIO:
    """Returns the only sheet with content as CSV with commas, in UTF-8.

    Raises:
        TableError: openpyxl is not installed, the file is damaged, or several sheets have content.
    """
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        raise TableError(
            path,
            f".xlsx needs openpyxl, which is not installed: {install_hint('xlsx')}, or save as "
            "CSV UTF-8",
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles that a file lacks
            book = load_workbook(file, read_only=True, data_only=True)
            sheets = {sheet.title: list(sheet.values) for sheet in book.worksheets}
            book.close()
    except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise TableError(path, "is not a whole .xlsx file: save it again, or as CSV UTF-8") from (
            error
        )
    filled = [rows for rows in sheets.values() if any(map(_is_filled, rows))]
    if len(filled) > 1:
        raise TableError(
            path,
            f"has {len(filled)} sheets with content: save the one that is meant as CSV UTF-8",
        )
    output = io.StringIO(newline="")
    writer = csv.writer(output, lineterminator="\n")
    writer.writerows([*map(_spell, row)] for rows in filled for row in rows)
    return io.BytesIO(output.getvalue().encode(errors="surrogatepass"))


def _is_filled(row: Iterable[object]) -> bool:
    return any(cell is not None for cell in row)


def _spell(cell: object) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, datetime):
        return cell.isoformat()
    return "" if cell is None else str(cell)
