"""The `curl` lines of the pages, run against a real service, print what the pages say."""

import json
import shutil

import pytest

from tests.commands import give_up
from tests.documentation.answers import PAGES, TOLERANCE, ask, curl_examples, shown
from tests.documentation.markdown import Example
from tests.matching import near

EXAMPLES = [
    pytest.param(example, id=f"{page.name}: {example.command[:60]}")
    for page in PAGES
    for example in curl_examples(page)
]


@pytest.fixture(autouse=True)
def _with_curl() -> None:
    if shutil.which("curl") is None:
        give_up("curl is not installed")


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_service_answers_as_the_page_says(url: str, example: Example) -> None:
    answer = ask(example, url)
    assert near(answer, json.loads(example.output), TOLERANCE), f"it answers {shown(answer)}"
