"""Fetches a checkpoint folder by its name on the hub: only what is read, nothing pickled."""

import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from model.checkpoint.hub import (
    Listing,
    Reference,
    download,
    is_reference,
    kept_folder,
    list_files,
    one_at_a_time,
    parse,
)
from model.errors import CheckpointError, HubError
from model.files import (
    ADAPTER,
    CONFIG,
    INDEX,
    JOIN_ADAPTER,
    MANIFEST,
    MOST_BYTES,
    SIGNATURE,
    TOKENIZER_FILES,
    WEIGHTS,
    read_object,
    write_object,
)

_log = logging.getLogger("headlight.checkpoint")

#: the record of where a folder came from
ORIGIN = "hub.json"
_OTHERS = (*TOKENIZER_FILES, MANIFEST, SIGNATURE)
_PART = re.compile(r"model-\d{1,6}-of-\d{1,6}\.safetensors", re.ASCII)
# Many times the largest encoder. A wrong name must not fill the disk.
_MOST_WEIGHTS = 16_000_000_000

Check = Callable[[Path], object]


def fetch(reference: Reference, output: Path, *, check: Check) -> str:
    """Fetches a folder beside `output`, checks it, and renames it; returns its commit.

    Raises:
        HubError: it cannot be fetched, or is not accepted; then nothing is left.
        CheckpointError: `output` holds something else.
        OSError: the folder cannot be written.
    """
    if output.exists() and not output.is_dir():
        raise CheckpointError(output, "is a file: give the path of a folder")
    is_there = output.exists() and any(output.iterdir())
    listing = list_files(reference)
    if is_there:
        if origin_of(output) == f"{reference.name}@{listing.commit}":
            return listing.commit
        raise CheckpointError(
            output,
            f"is there already, and is not {reference.name}@{listing.commit}: choose another",
        )
    _fetch_into(listing, output, check)
    return listing.commit


def kept(reference: Reference, *, check: Check) -> Path:
    """Returns the folder of a commit, which is fetched once; raises as `fetch` does."""
    if reference.is_pinned and kept_folder(reference).is_dir():
        return kept_folder(reference)
    listing = list_files(reference)
    folder = kept_folder(listing)
    with one_at_a_time(folder):
        if not folder.is_dir():
            _fetch_into(listing, folder, check)
    return folder


def local_folder(
    value: Path, *, check: Check = lambda _: None, note: Callable[[str], None] = _log.warning
) -> Path:
    """Returns the folder of an option, which is a path or `hf:NAME@REVISION`.

    Args:
        note: gets one line where a folder that ships has another name now.

    Raises:
        HubError: the name cannot be fetched, or its folder is not accepted.
        OSError: the folder cannot be written.
    """
    if is_reference(value):
        return kept(parse(value), check=check)
    if (line := renamed(value)) is None:
        return value
    note(line)
    return value.with_name("default")


def renamed(value: Path) -> str | None:
    """Returns the line that says so where `checkpoints/neutral` is now `checkpoints/default`."""
    default = value.with_name("default")
    if value.name != "neutral" or value.exists() or not default.is_dir():
        return None
    return f"{value} is {default} now: name that, the old name goes with the next release"


def origin_of(folder: Path) -> str | None:
    """Returns `NAME@COMMIT` of a folder that was fetched, else None."""
    path = folder / ORIGIN
    if not path.is_file():
        return None
    content = read_object(path)
    return f"{content.get('name')}@{content.get('commit')}"


def _fetch_into(listing: Listing, output: Path, check: Check) -> None:
    names = _choose_files(listing)
    part = output.with_name(f".{output.name}.part")
    download(listing, names, part)
    # Of a commit that this branch had before.
    for path in part.iterdir():
        if path.name not in names:
            path.unlink()
    try:
        check(part)
    except CheckpointError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise HubError(
            f"{listing.reference} ({listing.commit[:12]})",
            f"is not accepted: {error.path.name} {error.fault}",
        ) from error
    if SIGNATURE not in names:  # which covers every file, so none may be added
        write_object(
            part / ORIGIN,
            {
                "name": listing.reference.name,
                "revision": listing.reference.revision,
                "commit": listing.commit,
            },
        )
    if output.is_dir():
        output.rmdir()  # it is empty
    part.rename(output)


def _choose_files(listing: Listing) -> list[str]:
    """Returns the files to fetch; refuses a folder without safetensors, or with too large files."""
    what = f"{listing.reference} ({listing.commit[:12]})"
    if CONFIG not in listing.files:
        if ADAPTER in listing.files:
            raise HubError(what, JOIN_ADAPTER)
        raise HubError(what, f"has no {CONFIG}: it is no folder of transformers")
    weights = [WEIGHTS]
    others = [name for name in _OTHERS if name in listing.files]
    if WEIGHTS not in listing.files:
        weights = sorted(filter(_PART.fullmatch, listing.files))
        if INDEX not in listing.files or not weights:
            raise HubError(what, _why_no_weights(listing))
        others.append(INDEX)
    limits = {
        **dict.fromkeys([CONFIG, *others], MOST_BYTES),
        **dict.fromkeys(weights, _MOST_WEIGHTS),
    }
    for name, most in limits.items():
        size = listing.files[name]
        if not 0 <= size <= most:
            raise HubError(what, f"{name} has {size} bytes, at most {most} are fetched")
    total = sum(listing.files[name] for name in weights)
    if total > _MOST_WEIGHTS:
        raise HubError(what, f"its weights have {total} bytes, at most {_MOST_WEIGHTS} are fetched")
    return [*limits]


def _why_no_weights(listing: Listing) -> str:
    pickled = [name for name in listing.files if name.endswith((".bin", ".pt", ".pth", ".ckpt"))]
    if pickled:
        return (
            f"has no {WEIGHTS}, only {pickled[0]}, and nothing is unpickled here: choose a "
            "revision with safetensors (the hub's bot offers one as a pull request, "
            "--revision refs/pr/N), or save it as safetensors with transformers"
        )
    return f"has no {WEIGHTS}"
