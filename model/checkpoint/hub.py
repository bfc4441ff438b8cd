"""Fetches files of a repository on the Hugging Face hub, which the user named.

They are kept in the cache of huggingface_hub. That library is an extra, imported only here and only
then; it reads `HF_TOKEN`, `HF_ENDPOINT`, `HF_HOME`, `HF_HUB_OFFLINE` and `HTTPS_PROXY`.
"""

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from types import ModuleType
from typing import Literal

from model.errors import HubError, install_hint
from model.files import ADAPTER, FILES_BESIDE_WEIGHTS, WEIGHTS, read_object

SCHEME = "hf:"
Kind = Literal["model", "dataset"]
ORIGIN = "hub.json"  # the record in a fetched folder of where it came from

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)
_REVISION = re.compile(r"[\w./-]{1,200}", re.ASCII)
_IN_CACHE = re.compile(r".*/(?:model|dataset)s--([^/]+)/snapshots/([0-9a-f]{40})(?:/(.+))?")
_PART = re.compile(r"model-\d{1,6}-of-\d{1,6}\.safetensors", re.ASCII)
# Many times the largest encoder. A wrong name must not fill the disk.
_MOST_WEIGHTS = 16_000_000_000


@dataclass(frozen=True, slots=True)
class Reference:
    """A repository of the hub, such as `organisation/name`, at a branch, a tag or a commit."""

    name: str
    revision: str = "main"
    kind: Kind = "model"

    def __str__(self) -> str:
        """Returns the reference as a user writes it."""
        return f"{SCHEME}{self.name}@{self.revision}"


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a repository at one commit, with their sizes in bytes."""

    reference: Reference
    commit: str
    files: Mapping[str, int]


def is_reference(value: Path | str) -> bool:
    """Whether an option names a repository of the hub instead of a path."""
    return str(value).startswith(SCHEME)


def parse(value: Path | str, *, kind: Kind = "model") -> Reference:
    """Reads `hf:NAME`, `hf:NAME@REVISION`, or either without `hf:`; HubError for anything else."""
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
    """Finds the commit of a revision and its files, without the hub in the cache, or HubError."""
    with _library(reference) as hub:
        where = {"repo_id": reference.name, "repo_type": reference.kind}
        api = hub.HfApi()
        commit = api.resolve_revision(**where, revision=reference.revision).resolved
        try:
            files = hub.get_cached_repo_tree(**where, revision=commit)
        except hub.errors.CachedRepoTreeNotFoundError:
            files = api.list_repo_tree(**where, revision=commit, recursive=True)
        return Listing(
            reference, commit, {each.path: each.size for each in files if hasattr(each, "size")}
        )


def download(listing: Listing, names: Collection[str], *, output: Path | None = None) -> Path:
    """Downloads files of a commit that are not there yet, to `output` or the cache, or HubError.

    Returns the folder that they are in.
    """
    with _library(listing.reference) as hub:
        folder = hub.snapshot_download(
            listing.reference.name,
            repo_type=listing.reference.kind,
            revision=listing.commit,
            allow_patterns=[*map(escape, names)],
            local_dir=output,
        )
    return Path(folder)


def download_checkpoint(reference: Reference) -> Path:
    """Returns the folder of a checkpoint in the cache, downloaded once; raises HubError."""
    listing = list_files(reference)
    return download(listing, choose_files(listing))


def origin_of(folder: Path) -> tuple[str, str] | None:
    """Returns the name and commit of a folder that came from the hub, else None."""
    if (folder / ORIGIN).is_file():
        content = read_object(folder / ORIGIN)
        return str(content.get("name")), str(content.get("commit"))
    found = find_in_cache(folder.resolve())
    return None if found is None else found[:2]


def name_of(folder: Path) -> str:
    """Returns the name of a checkpoint: that of its folder, or of its repository in the cache."""
    found = find_in_cache(folder.resolve())
    return folder.resolve().name if found is None else found[0].rpartition("/")[2]


def find_in_cache(path: Path) -> tuple[str, str, str] | None:
    """Returns the name, the commit and the path there of a file or folder in the cache."""
    found = _IN_CACHE.fullmatch(path.as_posix())
    return found and (found[1].replace("--", "/", 1), found[2], found[3] or "")


def choose_files(listing: Listing) -> list[str]:
    """Returns the files to download; refuses weights that are no safetensors, or too large."""
    files, what = listing.files, full_name(listing)
    weights = [WEIGHTS] if WEIGHTS in files else sorted(filter(_PART.fullmatch, files))
    if not weights and ADAPTER not in files:
        raise HubError(
            what,
            f"has no {WEIGHTS}, and nothing is unpickled here: choose a revision with safetensors "
            "(the hub's bot offers one as a pull request, --revision refs/pr/N), or save it as "
            "safetensors with transformers",
        )
    size = sum(files[name] for name in weights)
    if size > _MOST_WEIGHTS:
        raise HubError(what, f"its weights have {size} bytes, at most {_MOST_WEIGHTS} are fetched")
    return [*weights, *(name for name in FILES_BESIDE_WEIGHTS if name in files)]


def full_name(listing: Listing) -> str:
    """Names a repository and its commit in messages."""
    return f"{listing.reference} ({listing.commit[:12]})"


@contextmanager
def _library(reference: Reference) -> Iterator[ModuleType]:
    """Imports huggingface_hub, and turns what it raises into one line that says what to do."""
    try:
        import huggingface_hub
        import huggingface_hub.errors
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ModuleNotFoundError as error:
        raise HubError(
            str(reference),
            f"{error.name} is not installed, which names of the hub need: {install_hint('hub')}",
        ) from error
    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        yield huggingface_hub
    except Exception as error:  # the HTTP client below the library raises errors of its own
        raise HubError(str(reference), _explain(error, huggingface_hub, reference)) from error


def _explain(error: Exception, hub: ModuleType, reference: Reference) -> str:
    name, revision = reference.name, reference.revision
    match error:
        case hub.errors.GatedRepoError():
            return (
                f"access needs consent: give it on the page of {name}, and set HF_TOKEN to a token "
                "of that account"
            )
        case hub.errors.RevisionNotFoundError():
            return f"the repository has no revision {revision}: check the name"
        case hub.errors.RepositoryNotFoundError():
            return (
                f"the hub shows no {reference.kind} of this name: check the name, or set HF_TOKEN "
                "if it is private"
            )
    command = f"headlight-train fetch {name} --revision {revision} --output DIR"
    if reference.kind == "dataset":
        command = f"hf download {name} --repo-type dataset --revision {revision} --local-dir DIR"
    # An address may hold a name and a password before its host.
    cause, *_ = re.sub(r"//[^/\s]*@", "//", f"{type(error).__name__}: {error}").splitlines()
    return (
        f"cannot be downloaded ({cause}): try again, or on a machine that reaches the hub, run: "
        f"{command}; then copy the folder here and give its path"
    )
