"""The Python of the pages runs, without a warning, and prints what the pages say.

What asks a service asks a real one, with the checkpoint that ships.
"""

import inspect
import os
import re
import sys
from pathlib import Path

import pytest

from tests.commands import printed
from tests.documentation.answers import ADDRESS
from tests.documentation.markdown import ROOT, all_blocks, pages
from tests.end_to_end.servers import environment
from training import TextClassifier

PAGES = [page for page in pages() if any(block.language == "python" for block in all_blocks(page))]
# As some clients take an address.
_HOSTS_AND_PORTS = ('"127.0.0.1", 8000', '"127.0.0.1:8000"')
PATHS = os.pathsep.join([str(ROOT), str(ROOT / "client")])


def test_there_are_such_pages() -> None:
    assert {page.name for page in PAGES} >= {"attention.md", "python.md", "checkpoint.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_of_a_page_prints_what_it_says(
    page: Path, request: pytest.FixtureRequest
) -> None:
    program, expected = "", ""
    every = all_blocks(page)
    for block, following in zip(every, [*every[1:], None], strict=True):
        if block.language == "python":
            program += block.content
            expected += following.content if following and following.language == "text" else ""

    if any(address in program for address in (ADDRESS, *_HOSTS_AND_PORTS)):
        url = request.getfixturevalue("url")
        port = url.rpartition(":")[2]
        program = program.replace(ADDRESS, url)
        for address in _HOSTS_AND_PORTS:
            program = program.replace(address, address.replace("8000", port))
    # Nothing is downloaded; but offline, this client asks no service on this machine either.
    offline = "0" if "InferenceClient" in program else "1"
    env = environment({"HF_HUB_OFFLINE": offline, "NO_PROXY": "*", "PYTHONPATH": PATHS})
    assert printed(sys.executable, "-W", "error", "-c", program, env=env) == expected


def test_every_parameter_of_the_estimator_is_named_with_its_default() -> None:
    page = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    part = page.partition("Its parameters;")[2].partition("\n## ")[0]
    named = dict(re.findall(r"`(\w+)=([^`]+)`", part))
    known = inspect.signature(TextClassifier).parameters.values()
    assert named == {each.name: repr(each.default).replace("'", '"') for each in known}
