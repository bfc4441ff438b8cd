"""Fetches the Parquet files of a data set, or a checkpoint, by its name on the hub.

`hf:NAME@REVISION:SPLIT` stands for the files of one split; `hf:NAME` for `main` and `train`. A data
set with several configurations needs `CONFIGURATION/SPLIT`. See `model.checkpoint.hub`.
"""

import re
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from model.atomic import beside, sync
from model.checkpoint import hub
from model.errors import CheckpointError, HubError
from model.files import SIGNATURE, to_bytes

_DEFAULT_SPLIT = "train"
# As tools of data sets name the parts of a split; a plain number stands in the split's folder.
_PART = re.compile(r"(.+?)(?:-[0-9]{5}-of-[0-9]{5}(?:-[0-9a-f]+)?)?\.parquet")
# A file is read whole.
_MOST_BYTES = 4_000_000_000


def local_files(values: Iterable[Path]) -> list[Path]:
    """Returns files of options, each a path or a name of the hub, which becomes its files."""
    files: list[Path] = []
    for value in values:
        files += _fetch(str(value)) if hub.is_reference(value) else [value]
    return files


def _fetch(value: str) -> list[Path]:
    text, _, chosen = value.removeprefix("hf:").partition(":")
    reference = hub.parse(f"hf:{text}", kind="dataset")
    listing = hub.list_files(reference)
    names = _choose(value, listing.files, chosen)
    size = sum(listing.files[name] for name in names)
    if size > _MOST_BYTES:
        raise HubError(value, f"has {size} bytes, at most {_MOST_BYTES} are fetched")
    folder = hub.download(listing, names)
    # Not on the standard output, which may be meant for JSON.
    sys.stderr.write(f"{value} is commit {listing.commit}\n")
    return [folder / name for name in names]


def name_of(path: Path) -> str:
    """Names a file in a record; one of the hub so that its commit shows and no two are the same."""
    found = hub.find_in_cache(path.absolute())
    if found is None:
        return path.name
    repository, commit, inside = found
    own = inside.replace("%", "%25").replace("_", "%5F").replace("/", "_")
    return f"{repository.rpartition('/')[2]}@{commit[:12]}_{own}"


def _choose(value: str, names: Iterable[str], chosen: str) -> list[str]:
    """Returns the files of one split, in the order of their names."""
    configuration, _, split = (chosen or _DEFAULT_SPLIT).rpartition("/")
    places = {name: place for name in sorted(names) if (place := _place_of(name)) is not None}
    if not places:
        raise HubError(
            value,
            "has no Parquet files: the hub offers them for most data sets at the revision "
            "refs/convert/parquet",
        )
    found = {
        name: place
        for name, place in places.items()
        if place[1] == split and configuration in ("", place[0])
    }
    if len(set(found.values())) != 1:
        choices = sorted({"/".join(filter(None, place)) for place in places.values()})
        wanted = chosen or _DEFAULT_SPLIT
        fault = "has more than one" if found else "has no"
        raise HubError(
            value,
            f"{fault} split {wanted}: give hf:NAME@REVISION:SPLIT with one of "
            f"{', '.join(choices[:20])}",
        )
    return list(found)


def _place_of(name: str) -> tuple[str, str] | None:
    """Returns the configuration and the split that a file belongs to."""
    *folders, file = name.split("/")
    part = _PART.fullmatch(file)
    if part is None:
        return None
    split = part[1]
    if split.isdigit() and folders:
        split = folders.pop()
    return "/".join(folder for folder in folders if folder != "data"), split


def fetch(reference: hub.Reference, output: Path, *, check: Callable[[Path], object]) -> str:
    """Downloads a checkpoint beside `output`, checks it, and renames it; returns its commit.

    An interrupted download goes on. Of one that is not accepted nothing is left.
    """
    listing = hub.list_files(reference)
    if hub.origin_of(output) == (reference.name, listing.commit):
        return listing.commit
    if output.is_file() or (output.is_dir() and any(output.iterdir())):
        raise CheckpointError(
            output,
            f"is there already, and is not {reference.name}@{listing.commit}: choose another",
        )
    names = hub.choose_files(listing)
    part = beside(output, "part")
    hub.download(listing, names, output=part)
    # The library's notes for its next download, and files of an older commit.
    for path in part.iterdir():
        if path.name not in names:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    try:
        check(part)
    except CheckpointError as error:
        shutil.rmtree(part)
        file = "" if error.path == part else f"{error.path.name} "
        raise HubError(hub.full_name(listing), f"{file}{error.fault}") from error
    if SIGNATURE not in names:  # which covers every file, so none may be added
        origin = {"name": reference.name, "revision": reference.revision, "commit": listing.commit}
        (part / hub.ORIGIN).write_bytes(to_bytes(origin))
    for path in part.iterdir():
        sync(path)
    if output.is_dir():
        output.rmdir()  # it is empty
    part.rename(output)
    return listing.commit
