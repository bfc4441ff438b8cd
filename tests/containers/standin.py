"""An engine for a machine that has none and can pull no image: Debian's, with images made here.

Debian's `docker.io` runs with folders and a socket of its own. The two base images are made by
debootstrap and kept between runs; they bear the names of the official ones, so that the
project's own Dockerfile and compose file are used unchanged.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.containers.engine import ROOT, CommandError, Engine, installed_compose, run

_PACKAGES = ("docker.io", "iptables", "debootstrap")
_DOCKER = "/usr/bin/docker"  # Debian's: another client may come first on the path
_CA_BUNDLE = Path("etc/ssl/certs/ca-certificates.crt")
_START_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class BaseImage:
    """An image that debootstrap makes."""

    tag: str
    suite: str
    packages: tuple[str, ...]
    changes: tuple[str, ...]


_BASES = (
    BaseImage(
        tag="python:3.11-slim-bookworm",
        suite="bookworm",
        packages=("ca-certificates", "netbase", "tzdata", "python3", "python3-venv", "python3-pip"),
        changes=(
            "ENV LANG=C.UTF-8",
            "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
            'CMD ["python3"]',
        ),
    ),
    BaseImage(
        tag="haproxy:3.0-alpine",
        suite="trixie",
        packages=("haproxy",),
        changes=(
            "USER haproxy",
            'ENTRYPOINT ["haproxy"]',
            'CMD ["-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]',
        ),
    ),
)


def can_stand_in() -> bool:
    """Whether this machine is a Debian on which packages may be installed."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


@contextmanager
def standin_engine() -> Iterator[Engine]:
    """Installs what is missing, starts an engine that has the base images, and ends it.

    Raises:
        CommandError: a step failed; the message says which.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headlight-containers"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock, tempfile.TemporaryDirectory(prefix="engine-") as work:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two engines would want the same bridge
        _install_packages()
        archives = [(base, _archive(base, cache)) for base in _BASES]
        with _torch_at_hand(cache), _daemon(Path(work)) as engine:
            for base, archive in archives:
                changes = [word for change in base.changes for word in ("--change", change)]
                engine.docker("import", *changes, str(archive), base.tag)
            yield engine


def _install_packages() -> None:
    missing = []
    for package in _PACKAGES:
        try:
            run(["dpkg", "--status", package])
        except CommandError:
            missing.append(package)
    if missing:
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "update", "-qq"], environment=quiet)
        command = ["apt-get", "install", "-qq", "--yes", "--no-install-recommends", *missing]
        run(command, environment=quiet)


@contextmanager
def _torch_at_hand(cache: Path) -> Iterator[None]:
    """Puts the wheel of torch that this machine's pip finds where the Dockerfile looks for it.

    Within a build, pip has none of this machine's settings and might find only the CUDA build. It
    is taken away again, so that no later build for a GPU takes it.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [requirement] = [name for name in project["dependencies"] if name.startswith("torch==")]
    pattern = f"{requirement.replace('==', '-')}*-cp311-*.whl"
    wheels = ROOT / "wheels"
    if list(wheels.glob(pattern)):
        yield
        return
    kept = cache / "wheels"
    if not list(kept.glob(pattern)):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        only = ["--only-binary", ":all:", "--python-version", "3.11", "--dest", str(kept)]
        run([*pip, *only, requirement])
    [wheel] = kept.glob(pattern)
    wheels.mkdir(exist_ok=True)
    copy = Path(shutil.copy(wheel, wheels))
    try:
        yield
    finally:
        copy.unlink()
        with suppress(OSError):  # there are others in it
            wheels.rmdir()


def _archive(base: BaseImage, cache: Path) -> Path:
    """The root folder of a base image as an archive, made unless it is there."""
    bundle = Path("/") / _CA_BUNDLE
    key = hashlib.sha256(repr(base).encode() + bundle.read_bytes()).hexdigest()[:16]
    archive = cache / f"{base.suite}-{key}.tar"
    if archive.is_file():
        return archive
    for old in cache.glob(f"{base.suite}-*"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="debootstrap-") as folder:
        root = Path(folder)
        include = f"--include={','.join(base.packages)}"
        run(["debootstrap", "--variant=minbase", include, base.suite, str(root)])
        _slim(root)
        _adopt(root)
        part = archive.with_suffix(".part")
        run(["tar", "-C", str(root), "--numeric-owner", "-cf", str(part), "."])
        part.rename(archive)
    return archive


def _slim(root: Path) -> None:
    for pattern in ("var/cache/apt/archives/*.deb", "var/lib/apt/lists/*", "usr/share/doc/*"):
        for path in root.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def _adopt(root: Path) -> None:
    """Gives an image the names of the official one, and this machine's trust."""
    if (root / "usr/bin/python3").exists():
        (root / "usr/lib/python3.11/EXTERNALLY-MANAGED").unlink()
        for name, target in (("python", "python3"), ("python3", "python3"), ("pip", "pip3")):
            (root / "usr/local/bin" / name).symlink_to(f"/usr/bin/{target}")
    bundle = root / _CA_BUNDLE
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.unlink(missing_ok=True)
    shutil.copy(Path("/") / _CA_BUNDLE, bundle)  # the host's CA bundle
    (root / "etc/pip.conf").write_text(f"[global]\ncert = /{_CA_BUNDLE}\n", encoding="utf-8")


@contextmanager
def _daemon(work: Path) -> Iterator[Engine]:
    address = f"unix://{work}/docker.sock"
    configuration = {
        "data-root": f"{work}/data",
        "exec-root": f"{work}/exec",
        "pidfile": f"{work}/docker.pid",
        "hosts": [address],
        "bip": "10.211.0.1/24",
        "default-address-pools": [{"base": "10.210.0.0/16", "size": 24}],
    }
    (work / "daemon.json").write_text(json.dumps(configuration), encoding="utf-8")
    environment = {
        "DOCKER_HOST": address,
        "DOCKER_CONFIG": str(work / "client"),
        "DOCKER_BUILDKIT": "1",
    }
    with (work / "dockerd.log").open("w+", encoding="utf-8") as log:
        command = ["dockerd", "--config-file", f"{work}/daemon.json"]
        daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            engine = Engine([_DOCKER], installed_compose(), environment)
            try:
                _await(daemon, engine)
            except CommandError as error:
                log.seek(0)
                raise CommandError(f"{error}\n{log.read()[-4000:]}") from error
            yield engine
            for container in engine.docker("ps", "--all", "--quiet").split():
                engine.docker("rm", "--force", container)
        finally:
            daemon.terminate()
            daemon.wait()


def _await(daemon: subprocess.Popen[bytes], engine: Engine) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            engine.docker("info")
        except CommandError as error:
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise CommandError("the engine did not start") from error
            time.sleep(0.1)
        else:
            return
