"""Fetches files from one commit of a repository on the Hugging Face hub, which the user named.

huggingface_hub is an extra, imported only here and only then; it reads `HF_TOKEN`, `HF_ENDPOINT`
and `HF_HOME`.
"""

import re
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import escape
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
_DIGESTS = {"sha256": "SHA-256", "git-sha1": "SHA-1"}


@dataclass(frozen=True, slots=True)
class Reference:
    """A repository of the hub, such as `organisation/name`, at a branch, a tag or a commit."""

    name: str
    revision: str = "main"
    kind: Kind = "model"

    def __str__(self) -> str:
        """Returns the reference as a user writes it."""
        return f"{SCHEME}{self.name}@{self.revision}"

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a commit, so that its files never change."""
        return _COMMIT.fullmatch(self.revision) is not None


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a repository at one commit, with their sizes in bytes; -1 if it is unknown."""

    reference: Reference
    commit: str
    files: Mapping[str, int]


def is_reference(value: Path | str) -> bool:
    """Whether an option names a repository of the hub instead of a path."""
    return str(value).startswith(SCHEME)


def parse(value: Path | str, *, kind: Kind = "model") -> Reference:
    """Reads `hf:NAME`, `hf:NAME@REVISION`, or either without `hf:`.

    Raises:
        HubError: the value is not a name of the hub.
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
        HubError: the repository, the revision, the network or the extra is missing.
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
    files = {file.rfilename: -1 if file.size is None else file.size for file in info.siblings or []}
    return Listing(reference, info.sha, files)


def download(listing: Listing, names: Collection[str], folder: Path) -> None:
    """Downloads files of one commit into a folder under the same paths, and checks their digests.

    What an interrupted download left there is completed.

    Raises:
        HubError: a file or the network is missing, or a file is not what the hub promised.
    """
    reference = listing.reference
    hub = _library(reference)
    where = {"repo_type": reference.kind, "revision": listing.commit, "local_dir": folder}
    with _explained(hub, reference):
        hub.snapshot_download(reference.name, allow_patterns=[*map(escape, names)], **where)
        checked = hub.HfApi().verify_repo_checksums(reference.name, **where)
    wrong = [each for each in checked.mismatches if each["path"] in names]
    missing = [name for name in checked.missing_paths if name in names]
    for each in wrong:
        (folder / each["path"]).unlink()
    if not missing:
        # Notes of the library for its next download into this folder.
        shutil.rmtree(folder / ".cache", ignore_errors=True)
    for each in wrong:
        raise HubError(
            str(reference),
            f"{each['path']} does not match its {_DIGESTS[each['algorithm']]} on the hub: it was "
            "changed on its way; fetch it again",
        )
    for name in missing:
        raise HubError(str(reference), f"{name} was not downloaded whole; fetch it again")
    for name in names:
        sync(folder / name)


def kept_folder(pinned: Listing | Reference) -> Path:
    """Returns the folder below `HF_HOME` that keeps the files of a commit between runs."""
    if isinstance(pinned, Listing):
        pinned = replace(pinned.reference, revision=pinned.commit)
    home = Path(_library(pinned).constants.HF_HOME) / "headlight"
    parts = f"{pinned.kind}s--{pinned.name.replace('/', '--')}"
    return home / parts / pinned.revision / pinned.name.rpartition("/")[2]


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Holds a lock beside a folder, so that replicas that start together fetch once."""
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    folder.parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(folder.with_name(f".{folder.name}.lock")):
        yield


def _library(reference: Reference) -> ModuleType:
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
    try:
        yield
    except Exception as error:  # the HTTP client below the library raises errors of its own
        raise HubError(str(reference), _explain(error, hub, reference)) from error


def _explain(error: Exception, hub: ModuleType, reference: Reference) -> str:
    errors = hub.errors
    match error:
        case errors.GatedRepoError():
            return (
                f"access needs consent: give it on the page of {reference.name}, and set HF_TOKEN "
                "to a token of that account"
            )
        case errors.RevisionNotFoundError():
            return f"the repository has no revision {reference.revision}: check the name"
        case errors.RepositoryNotFoundError():
            return (
                f"the hub shows no {reference.kind} of this name: check the name, or set HF_TOKEN "
                "if it is private"
            )
        case errors.EntryNotFoundError():
            return f"a file of the commit is not there: {_root_cause(error)}; fetch it again"
        case errors.OfflineModeIsEnabled():
            return (
                "HF_HUB_OFFLINE is set, so the hub is not asked: unset it, or "
                f"{_elsewhere(reference)}"
            )
        case errors.HfHubHTTPError():
            status = error.response.status_code
            is_forbidden = status in (401, 403)
            advice = "check HF_TOKEN" if is_forbidden else f"try again, or {_elsewhere(reference)}"
            return f"the hub answers with status {status}: {advice}"
        case errors.HFValidationError():
            return f"is no name of the hub: {_root_cause(error)}"
    # An address may hold a name and a password before its host.
    endpoint = re.sub(r"//[^/]*@", "//", hub.constants.ENDPOINT)
    return (
        f"the hub at {endpoint} cannot be read ({_root_cause(error)}): try again, or "
        f"{_elsewhere(reference)}"
    )


def _elsewhere(reference: Reference) -> str:
    name, revision = reference.name, reference.revision
    command = f"headlight-train fetch {name} --revision {revision} --output DIR"
    if reference.kind == "dataset":
        command = f"hf download {name} --repo-type dataset --revision {revision} --local-dir DIR"
    return (
        f"on a machine that reaches it, run: {command}; then copy the folder here and give its path"
    )


def _root_cause(error: BaseException) -> str:
    """Returns the first line of the error that caused the others."""
    while error.__cause__ is not None or (
        error.__context__ is not None and not error.__suppress_context__
    ):
        error = error.__cause__ or error.__context__ or error
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
