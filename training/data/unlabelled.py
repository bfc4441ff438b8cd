"""From a file of texts without labels to the texts."""

from pathlib import Path

from model.errors import InputError
from model.text import check_text
from training.data.readers import TEXT_COLUMNS, decode
from training.errors import DataError


def read_texts(path: Path) -> list[str]:
    """Reads one text a line; a header that names the column is left out.

    Args:
        path: a TSV of one column, or plain lines; also .gz.

    Raises:
        DataError: the file cannot be read, or a line has no text in it.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}") from error
    lines = [line.removesuffix("\r") for line in decode(path, content).split("\n")]
    first = 1 if lines[0].strip().casefold() in TEXT_COLUMNS else 0
    texts = []
    for number, line in enumerate(lines[first:], start=first + 1):
        if not line:
            continue
        try:
            check_text(line)
        except InputError as error:
            raise DataError(path, str(error), row=number) from error
        texts.append(line)
    return texts
