"""Turns a sheet of an Excel workbook (.xlsx) into CSV, in a process with limits.

A small workbook may unpack to anything, or hold two cells so far apart that the blank ones between
them fill the memory.
"""

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from model.errors import TableError, install_hint

# A script, not a module, so that it depends on nothing that the package imports.
_SCRIPT = Path(__file__).with_name("workbook_child.py")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLD = "is encrypted, or of Excel before 2007: save it as .xlsx without a password"
_DAMAGED = "is not a whole .xlsx file: save it again"
_LARGE = "needs more memory or time than a workbook gets: delete cells far from the others"


def workbook_to_csv(path: str | Path, file: BinaryIO, sheet: str | None) -> BinaryIO:
    """Returns the sheet of a name, or the only one that shows any content, as CSV in UTF-8."""
    content = file.read()
    if find_spec("python_calamine") is None:
        fault = f".xlsx needs python-calamine, which is not installed: {install_hint('xlsx')}"
    elif content.startswith(_OLE):
        fault = _OLD
    else:
        output = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        # -P: no module of the folder where the script stands or that the command started in.
        command = [sys.executable, "-P", str(_SCRIPT), *([] if sheet is None else [sheet])]
        child = subprocess.run(  # noqa: S603 - the interpreter, our script, a name
            command, input=content, stdout=output, stderr=subprocess.PIPE, check=False
        )
        if child.returncode == 0:
            output.seek(0)
            return output
        output.close()
        fault = {1: _DAMAGED, 2: child.stderr.decode()}.get(child.returncode, _LARGE)
    raise TableError(path, f"{fault}, or save as CSV UTF-8")
