"""Writes archives again so that the same files give the same bytes on every machine."""

import gzip
import io
import tarfile
from pathlib import Path


def normalize(archive: Path, *, epoch: int) -> None:
    """Writes a `.tar.gz` again: sorted, with one time, and without names of users.

    Args:
        archive: which is replaced.
        epoch: the time of all that it holds, in seconds since 1970.
    """
    plain = io.BytesIO()
    with (
        tarfile.open(archive) as read,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as written,
    ):
        for member in sorted(read.getmembers(), key=lambda each: each.name):
            member.mtime = epoch
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            written.addfile(member, read.extractfile(member) if member.isfile() else None)
    with (
        archive.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=epoch) as packed,
    ):
        packed.write(plain.getvalue())
