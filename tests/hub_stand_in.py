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


@dataclass
class Repository:
    """Its commits, and what goes wrong with them.

    Args:
        commits: the files of each commit.
        branches: the commit of each branch.
        token: that a request must carry.
        gated: whether access needs consent.
        cut: how often a file is cut in its middle from now on.
        wrong: files whose content is not what the listing promised.
        gone: files that are listed and not there.
        broken: whether files are answered with status 500.
        sizes: whether the listing tells them.
    """

    commits: dict[str, dict[str, bytes]]
    branches: dict[str, str]
    token: str | None = None
    gated: bool = False
    cut: dict[str, int] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    broken: bool = False
    sizes: bool = True

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
    """The content of a folder's files."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@contextmanager
def run_hub() -> Iterator[Hub]:
    """Serves repositories on a free port."""
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
        if tree is not None:
            self._tree(tree[1], tree[2], tree[3])
        elif info is not None:
            self._info(info[1], info[2], info[3] or "main")
        elif file is not None:
            self._file("datasets" if file[1] else "models", file[2], file[3], file[4])
        else:
            self._refuse(404, "RepoNotFound")

    def _repository(self, kind: str, name: str) -> Repository | None:
        repository = self.hub.repositories.get(f"{kind}/{name}")
        if repository is None:
            self._refuse(404, "RepoNotFound")
            return None
        if repository.gated:
            self._refuse(403, "GatedRepo")
            return None
        given = self.headers.get("Authorization")
        if repository.token is not None and given != f"Bearer {repository.token}":
            self._refuse(401, "RepoNotFound")
            return None
        return repository

    def _info(self, kind: str, name: str, revision: str) -> None:
        repository = self._repository(kind, name)
        if repository is None:
            return
        commit = repository.commit_of(revision)
        if commit is None:
            self._refuse(404, "RevisionNotFound")
            return
        siblings = [_sibling(*file) for file in repository.commits[commit].items()]
        if not repository.sizes:
            siblings = [{"rfilename": each["rfilename"]} for each in siblings]
        content = {"id": name, "sha": commit, "siblings": siblings}
        self._send(json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _tree(self, kind: str, name: str, revision: str) -> None:
        repository = self._repository(kind, name)
        if repository is None:
            return
        entries = []
        for file in repository.commits[revision].items():
            found = _sibling(*file)
            entry = {"type": "file", "path": file[0], "oid": found["blobId"], "size": found["size"]}
            if "lfs" in found:
                entry["lfs"] = {**found["lfs"], "oid": found["lfs"]["sha256"]}
            entries.append(entry)
        self._send(json.dumps(entries).encode(), {"Content-Type": "application/json"})

    def _file(self, kind: str, name: str, revision: str, file: str) -> None:
        repository = self._repository(kind, name)
        if repository is None:
            return
        if repository.broken:
            self._refuse(500, None)
            return
        commit = repository.commit_of(revision)
        if commit is None:
            self._refuse(404, "RevisionNotFound")
            return
        content = repository.commits[commit].get(file)
        if content is None or file in repository.gone:
            self._refuse(404, "EntryNotFound")
            return
        sha256 = _sibling(file, content).get("lfs", {}).get("sha256")
        if file in repository.wrong:
            content = content[:-1] + bytes([content[-1] ^ 1])
        etag = sha256 or _blob(content)
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if sha256 is not None:
            headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(content))}
        self._send(content, headers, cut=self.command == "GET" and self._is_cut(repository, file))

    def _is_cut(self, repository: Repository, file: str) -> bool:
        left = repository.cut.get(file, 0)
        repository.cut[file] = left - 1
        return left > 0

    def _send(self, content: bytes, headers: Mapping[str, str], *, cut: bool = False) -> None:
        start = 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked is not None:
            start = int(asked[1])
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        if self.command == "HEAD":
            return
        rest = content[start:]
        self.wfile.write(rest[: len(rest) // 2] if cut else rest)
        if cut:
            self.close_connection = True

    def _refuse(self, status: int, code: str | None) -> None:
        body = b'{"error": "refused"}'
        self.send_response(status)
        if code is not None:
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", "refused")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _sibling(name: str, content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": _blob(content)}
    if name.endswith((".safetensors", ".parquet", ".bin")):
        digest = hashlib.sha256(content).hexdigest()
        found["lfs"] = {"size": len(content), "sha256": digest, "pointerSize": 130}
    return found


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
