"""Runs the trial of a tokenizer: a script that `sandbox` starts in a process with limits.

It writes a line of JSON before each text, and one if the folder is refused.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

try:
    import resource
except ImportError:  # not on Windows: the time limit of the parent is left
    resource = None  # type: ignore[assignment]

_FILES = ("tokenizer.json", "vocab.txt")
_MOST_PROCESSOR_SECONDS = 30
_MOST_BYTES = 768 * 2**20
_BYTES_A_BYTE_OF_A_FILE = 16  # reading JSON takes several times its size
_MAX_LENGTH = 100_000  # more than any text here has tokens, so that nothing is cut off
# An exponential search fails on the first, and one that grows with the cube of a run on the second.
_RUNS = (24, 400)
_LONG = 16_384  # no text of the service is encoded in parts of more characters than this
# What keeps a search from ending well; many normalizers remove the first.
_END = "\N{BELL}\N{SNOWMAN}"


def main(folder: Path) -> None:
    """Opens the tokenizer of a folder and encodes each text."""
    limit(folder)
    import_alone()
    from model.errors import CheckpointError, TokenizerError
    from model.tokenization.reader import load_tokenizer

    try:
        tokenizer = load_tokenizer(folder, max_length=_MAX_LENGTH)
    except CheckpointError as error:
        _report(file=error.path.name, error=error.fault)
        return
    for name, text in (*hard_texts(), *texts_of_patterns(folder)):
        _report(step=name)
        try:
            for with_tokens in (False, True):
                tokenizer.encode(text, with_tokens=with_tokens)
        except TokenizerError as error:
            _report(error=f"fails in its trial, at the text of {name}: {error}")
            return
    _report(step="end")


def limit(folder: Path) -> None:
    """Limits memory and processor time of this process, where the system can."""
    # One thread: each would reserve memory of its own. Read when tokenizers first uses threads.
    os.environ["RAYON_NUM_THREADS"] = "1"
    if resource is None:
        return
    size = sum((folder / name).stat().st_size for name in _FILES if (folder / name).is_file())
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, _MOST_PROCESSOR_SECONDS),
        (resource.RLIMIT_AS, _MOST_BYTES + _BYTES_A_BYTE_OF_A_FILE * size),
    ):
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        with suppress(ValueError, OSError):  # macOS does not limit the address space
            resource.setrlimit(kind, (most, hard))


def import_alone() -> None:
    """Makes the modules of this package importable without what the package imports."""
    package = ModuleType("model")
    package.__path__ = [str(Path(__file__).parents[1])]
    sys.modules["model"] = package


def hard_texts() -> Iterator[tuple[str, str]]:
    """Yields texts that are hard for a tokenizer, each with a name for messages."""
    for code in range(ord("!"), 0x7F):
        for length in _RUNS:
            yield f"{length} of U+{code:04X}", chr(code) * length + _END
    for name, piece in (
        ("one letter", "a"),
        ("one digit", "7"),
        ("stops", "."),
        ("spaces", " "),
        ("line breaks", "\r\n"),
        ("control characters", "\0\a\x7f\x85"),
        ("words", "don't stop "),
        ("long words", "a" * 100 + " "),
        ("accents", "e" + "\u0301" * 40),
        ("letters that decompose", "\u1f82\u1faf\u0130\u1d1c0"),
        ("ligatures", "\ufb03\ufdfa\u3300\u32ff"),
        ("Hangul", "\ud55c\u1112\u1161\u11ab"),
        ("ideographs", "\u4e2d\U00020000\U0002fa1f"),
        ("emoji", "\U0001f3f3\ufe0f\u200d\U0001f308\U0001f44d\U0001f3ff\U0001f1e9\U0001f1ea"),
        ("characters without width", "\u200b\ufeff\u00ad\u202e"),
        ("right to left", "\u05e9\u05dc\u05d5\u05dd \u0645"),
        ("characters for private use", "\ue000\U0010ffff"),
    ):
        yield name, piece * (_LONG // len(piece))
    yield "all planes", "".join(chr(code) for code in range(0, 0xD800, 19))
    yield "all higher planes", "".join(chr(code) for code in range(0xE000, 0x110000, 401))
    yield "nothing", ""


def texts_of_patterns(folder: Path) -> Iterator[tuple[str, str]]:
    """Yields a text for each pattern of a tokenizer, of the letters that it names."""
    path = folder / _FILES[0]
    content = json.loads(path.read_bytes()) if path.is_file() else {}
    waiting = [content.get("normalizer"), content.get("pre_tokenizer")]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            for letters in (part.get("String"), re.sub(r"\W", "", str(part.get("Regex", "")))):
                if letters:
                    for most in (_RUNS[1], _LONG):
                        name = f"{most} letters of {letters[:20]}"
                        yield name, letters * (most // len(letters) + 1) + _END
            waiting += part.values()


def _report(**content: object) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
