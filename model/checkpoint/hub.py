"""Fetches files by a name of the Hugging Face hub, from one commit, and checks their digests.

Nothing comes from the network unless somebody gave a name. A branch is resolved to its commit
first, and everything is read from that commit. huggingface_hub is an extra, imported only here and
only then; it takes a token from `HF_TOKEN`, the hub's address from `HF_ENDPOINT`, and a folder for
what it keeps from `HF_HOME`.
"""

import hashlib
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

from model.errors import HubError
from model.files import sync

SCHEME = "hf:"
Kind = Literal["model", "dataset"]

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)
_REVISION = re.compile(r"[\w./-]{1,200}", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_PIECE = 1_048_576  # bytes of a file that are read at once
_ANOTHER_MACHINE = "on a machine that reaches it, run: "
_COPY = "; then copy the folder here and give its path"


@dataclass(frozen=True, slots=True)
class Reference:
    """A repository of the hub at a revision.

    Args:
        name: such as `organisation/name`.
        revision: a branch, a tag or a commit.
        kind: of the repository.
    """

    name: str
    revision: str = "main"
    kind: Kind = "model"

    def __str__(self) -> str:
        """The reference as an option has it."""
        return f"{SCHEME}{self.name}@{self.revision}"

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a commit, so that its files never change."""
        return _COMMIT.fullmatch(self.revision) is not None


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """What the hub says of a file.

    Args:
        size: in bytes.
        sha256: of the content; None for a small file.
        blob: the SHA-1 of the content as git computes it.
    """

    size: int
    sha256: str | None
    blob: str | None


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a repository at one commit.

    Args:
        reference: what was asked for.
        commit: its commit, 40 hex digits.
        files: by their paths in the repository.
    """

    reference: Reference
    commit: str
    files: Mapping[str, RemoteFile]


def is_reference(value: Path | str) -> bool:
    """Tells whether an option names a repository of the hub instead of a path."""
    return str(value).startswith(SCHEME)


def parse(value: Path | str, *, kind: Kind = "model") -> Reference:
    """Reads `hf:NAME`, `hf:NAME@REVISION`, or either without `hf:`.

    Args:
        value: of an option.
        kind: of the repository.

    Raises:
        HubError: it is no such name.
    """
    text = str(value)
    name, _, revision = text.removeprefix(SCHEME).partition("@")
    revision = revision or "main"
    if not _NAME.fullmatch(name) or not _REVISION.fullmatch(revision) or ".." in name + revision:
        raise HubError(
            text,
            "is no name of the hub: give hf:NAME@REVISION, such as "
            "hf:distilbert/distilbert-base-uncased-finetuned-sst-2-english@main",
        )
    return Reference(name, revision, kind)


def list_files(reference: Reference) -> Listing:
    """Asks the hub for the commit of a revision, and for its files.

    Raises:
        HubError: the repository, the revision or the network is not there; or the extra is not.
    """
    hub = _library(reference)
    with _explained(hub, reference):
        info = hub.HfApi().repo_info(
            reference.name,
            repo_type=reference.kind,
            revision=reference.revision,
            files_metadata=True,
        )
    if info.sha is None or not _COMMIT.fullmatch(info.sha):
        raise HubError(str(reference), f"the hub names no commit for it, but {info.sha!r}")
    files = {
        each.rfilename: RemoteFile(
            -1 if each.size is None else each.size,
            None if each.lfs is None else each.lfs.sha256,
            each.blob_id,
        )
        for each in info.siblings or []
    }
    return Listing(reference, info.sha, files)


def download(listing: Listing, names: Collection[str], folder: Path) -> None:
    """Downloads files of one commit into a folder, and checks their digests.

    What an interrupted download left there is completed.

    Args:
        listing: the commit.
        names: paths of files in it.
        folder: where they go, under the same paths.

    Raises:
        HubError: a file or the network is not there, or a file is not what the hub promised.
    """
    reference = listing.reference
    hub = _library(reference)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        with _explained(hub, reference):
            hub.hf_hub_download(
                reference.name,
                name,
                repo_type=reference.kind,
                revision=listing.commit,
                local_dir=folder,
            )
        fault = _difference(folder / name, listing.files[name])
        if fault is not None:
            (folder / name).unlink()
            shutil.rmtree(folder / ".cache", ignore_errors=True)
            raise HubError(
                str(reference), f"{name} {fault}: it was changed on its way; fetch it again"
            )
        sync(folder / name)
    # Notes of the library for its next download into this folder.
    shutil.rmtree(folder / ".cache", ignore_errors=True)


def kept_folder(listing_or_pinned: Listing | Reference) -> Path:
    """Returns the folder in which the files of a commit are kept between runs.

    It lies in the home of huggingface_hub. Its own name is the last part of the repository's.

    Args:
        listing_or_pinned: a listing, or a reference whose revision is a commit.

    Raises:
        HubError: the extra is not installed.
    """
    if isinstance(listing_or_pinned, Listing):
        reference, commit = listing_or_pinned.reference, listing_or_pinned.commit
    else:
        reference, commit = listing_or_pinned, listing_or_pinned.revision
    home = Path(_library(reference).constants.HF_HOME) / "headlight"
    parts = f"{reference.kind}s--{reference.name.replace('/', '--')}"
    return home / parts / commit / reference.name.rpartition("/")[2]


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Holds a lock beside a folder, so that replicas that start together fetch once."""
    from filelock import FileLock  # huggingface_hub brings it

    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        yield


def _library(reference: Reference) -> ModuleType:
    """Imports huggingface_hub.

    Raises:
        HubError: the extra is not installed.
    """
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ModuleNotFoundError as error:
        raise HubError(
            str(reference),
            f"{error.name} is not installed, which names of the hub need: install the extra hub "
            "(.venv/bin/pip install --constraint constraints.txt --editable '.[hub]')",
        ) from error
    if not sys.stderr.isatty():
        disable_progress_bars()
    return huggingface_hub


@contextmanager
def _explained(hub: ModuleType, reference: Reference) -> Iterator[None]:
    """Turns what the library raises into one line that says what to do."""
    errors = hub.errors
    what = str(reference)
    try:
        yield
    except errors.GatedRepoError as error:
        raise HubError(
            what,
            f"access needs consent: give it on the page of {reference.name}, and set HF_TOKEN to "
            "a token of that account",
        ) from error
    except errors.RevisionNotFoundError as error:
        raise HubError(
            what, f"the repository has no revision {reference.revision}: check the name"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise HubError(
            what,
            f"the hub shows no {reference.kind} of this name: check the name, or set HF_TOKEN if "
            "it is private",
        ) from error
    except errors.EntryNotFoundError as error:
        raise HubError(
            what, f"a file of the commit is not there: {_last(error)}; fetch it again"
        ) from error
    except errors.OfflineModeIsEnabled as error:
        raise HubError(
            what,
            f"HF_HUB_OFFLINE is set, so the hub is not asked: unset it, or {_elsewhere(reference)}",
        ) from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        advice = (
            "check HF_TOKEN" if status in (401, 403) else f"try again, or {_elsewhere(reference)}"
        )
        raise HubError(what, f"the hub answers with status {status}: {advice}") from error
    except errors.HFValidationError as error:
        raise HubError(what, f"is no name of the hub: {_last(error)}") from error
    except Exception as error:
        # Of the HTTP client below the library, which may change.
        raise HubError(
            what,
            f"the hub at {_without_password(hub.constants.ENDPOINT)} cannot be read "
            f"({_last(error)}): try again, or "
            f"{_elsewhere(reference)}",
        ) from error


def _elsewhere(reference: Reference) -> str:
    if reference.kind == "model":
        command = (
            f"headlight-train fetch {reference.name} --revision {reference.revision} --output DIR"
        )
    else:
        command = (
            f"hf download {reference.name} --repo-type dataset --revision {reference.revision} "
            "--local-dir DIR"
        )
    return f"{_ANOTHER_MACHINE}{command}{_COPY}"


def _without_password(url: str) -> str:
    """A URL without the name and the password that may stand before its host."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


def _last(error: BaseException) -> str:
    """The first line of what lies at the bottom of an error."""
    while error.__cause__ is not None or (
        error.__context__ is not None and not error.__suppress_context__
    ):
        error = error.__cause__ or error.__context__ or error
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def _difference(path: Path, promised: RemoteFile) -> str | None:
    """Tells how a file differs from what the hub promised."""
    size = path.stat().st_size
    if size != promised.size:
        return f"has {size} bytes, and the hub says {promised.size}"
    with path.open("rb") as file:
        if promised.sha256 is not None:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            return None if found == promised.sha256 else "does not match its SHA-256 on the hub"
        if promised.blob is None:
            return None
        blob = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        while piece := file.read(_PIECE):
            blob.update(piece)
        return None if blob.hexdigest() == promised.blob else "does not match its SHA-1 on the hub"
