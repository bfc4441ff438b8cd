"""The eight steps of the architecture are the way that a request really goes."""

import re
import threading
from pathlib import Path
from types import FrameType

import pytest

from model.backends.kernels import reason_unavailable
from tests.documentation.markdown import ROOT, sections
from tests.end_to_end.servers import local_service

PAGE = ROOT / "docs" / "concepts" / "architecture.md"
# Files of the project that a request may enter; a walk through more is no walk.
MOST_FILES = 21
BODY = {"sentences": ["A warm, funny film."]}


def files_of_a_request(checkpoint: Path, folder: Path) -> set[str]:
    """The files of the project that the threads of a service enter for one request."""
    entered: set[str] = set()
    is_noted = threading.Event()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and is_noted.is_set():
            entered.add(frame.f_code.co_filename)

    threading.setprofile(note)
    try:
        with local_service(checkpoint, folder) as running, running.client() as client:
            for _ in range(3):  # what the first ones make stays
                client.post("/predict", json=BODY)
            is_noted.set()
            assert client.post("/predict", json=BODY).status_code == 200
            is_noted.clear()
    finally:
        threading.setprofile(None)
    packages = tuple(f"{ROOT / name}/" for name in ("service", "model"))
    return {str(Path(name).relative_to(ROOT)) for name in entered if name.startswith(packages)}


@pytest.mark.skipif(reason_unavailable() is not None, reason="torch computes passes here")
def test_a_request_goes_through_the_files_of_its_eight_steps(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    steps = re.findall(
        r"^(\d)\. \*\*.*", sections(PAGE)["A request in eight steps"], flags=re.MULTILINE
    )
    named = re.findall(r"`([\w/]+\.py)`", sections(PAGE)["A request in eight steps"])
    found = files_of_a_request(checkpoint_folder, tmp_path)
    assert steps == list("12345678")
    assert set(named) - {"model/types.py"} <= found
    assert len(found) <= MOST_FILES
