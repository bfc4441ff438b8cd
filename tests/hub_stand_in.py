"""A hub on this machine: the routes that huggingface_hub's own client asks for files."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

_INFO = re.compile(r"/api/(models|datasets)/(.+?)(?:/revision/(.+))?")
_TREE = re.compile(r"/api/(models|datasets)/(.+?)/tree/([^/]+)/?")
_FILE = re.compile(r"/(datasets/)?(.+?)/resolve/([^/]+)/(.+)")
# The hub keeps these files beside the repository, by their SHA-256.
_LARGE = (".safetensors", ".parquet", ".bin")


@dataclass
class Repository:
    """Its commits, and what goes wrong with them.

    Args:
        commits: the files of each commit.
        branches: the commit of each branch.
        token: that a request must carry.
        gated: whether access needs consent.
    """

    commits: dict[str, dict[str, bytes]]
    branches: dict[str, str]
    token: str | None = None
    gated: bool = False

    def commit_of(self, revision: str) -> str | None:
        """The commit of a branch or of its own name."""
        return self.branches.get(revision, revision if revision in self.commits else None)


@dataclass
class Hub:
    """A server with its repositories, by `models/NAME` and `datasets/NAME`."""

    url: str
    repositories: dict[str, Repository]
    asked: list[str] = field(default_factory=list)

    def add(
        self, name: str, files: Mapping[str, bytes], *, kind: str = "models", branch: str = "main"
    ) -> str:
        """Adds a commit to a repository's branch; returns its id."""
        content = json.dumps(
            {name: hashlib.sha256(file).hexdigest() for name, file in files.items()}
        )
        commit = hashlib.sha1((name + content).encode(), usedforsecurity=False).hexdigest()
        repository = self.repositories.setdefault(f"{kind}/{name}", Repository({}, {}))
        repository.commits[commit] = dict(files)
        repository.branches[branch] = commit
        return commit

    def __getitem__(self, name: str) -> Repository:
        """The repository of a network."""
        return self.repositories[f"models/{name}"]

    def downloads(self) -> list[str]:
        """The files that were asked for with GET, in order."""
        return [
            path.rpartition("/")[2]
            for path in self.asked
            if path.startswith("GET /") and "/resolve/" in path
        ]


def files_of(folder: Path) -> dict[str, bytes]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@contextmanager
def run_hub() -> Iterator[Hub]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    hub = Hub(f"http://127.0.0.1:{server.server_address[1]}", {})
    server.hub = hub  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _RefusedError(Exception):
    """Its arguments are a status and the hub's own code."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> Hub:
        hub: Hub = self.server.hub  # type: ignore[attr-defined]
        return hub

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401
        """Says nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{self.command} {path}")
        info, file, tree = (each.fullmatch(path) for each in (_INFO, _FILE, _TREE))
        try:
            if tree is not None:
                self._tree(tree[1], tree[2], tree[3])
            elif info is not None:
                self._info(info[1], info[2], info[3] or "main")
            elif file is not None:
                self._file("datasets" if file[1] else "models", file[2], file[3], file[4])
            else:
                self._refuse(404, "RepoNotFound")
        except _RefusedError as refused:
            self._refuse(*refused.args)

    def _repository(self, kind: str, name: str) -> Repository:
        repository = self.hub.repositories.get(f"{kind}/{name}")
        if repository is None:
            raise _RefusedError(404, "RepoNotFound")
        if repository.gated:
            raise _RefusedError(403, "GatedRepo")
        given = self.headers.get("Authorization")
        if repository.token is not None and given != f"Bearer {repository.token}":
            raise _RefusedError(401, "RepoNotFound")
        return repository

    def _info(self, kind: str, name: str, revision: str) -> None:
        commit = self._repository(kind, name).commit_of(revision)
        if commit is None:
            raise _RefusedError(404, "RevisionNotFound")
        content = json.dumps({"id": name, "sha": commit}).encode()
        self._send(content, {"Content-Type": "application/json"})

    def _tree(self, kind: str, name: str, revision: str) -> None:
        files = self._repository(kind, name).commits[revision]
        entries = [_entry(*file) for file in files.items()]
        self._send(json.dumps(entries).encode(), {"Content-Type": "application/json"})

    def _file(self, kind: str, name: str, revision: str, file: str) -> None:
        repository = self._repository(kind, name)
        commit = repository.commit_of(revision) or ""
        content = repository.commits.get(commit, {}).get(file)
        if content is None:
            raise _RefusedError(404, "EntryNotFound")
        is_large = file.endswith(_LARGE)
        etag = hashlib.sha256(content).hexdigest() if is_large else _blob(content)
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit}
        if is_large:
            headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(content))}
        self._send(content, headers)

    def _send(self, content: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _refuse(self, status: int, code: str) -> None:
        body = b'{"error": "refused"}'
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", "refused")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _entry(name: str, content: bytes) -> dict[str, Any]:
    size = len(content)
    entry: dict[str, Any] = {"type": "file", "path": name, "oid": _blob(content), "size": size}
    if name.endswith(_LARGE):
        digest = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"size": size, "oid": digest, "sha256": digest, "pointerSize": 130}
    return entry


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
