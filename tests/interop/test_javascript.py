"""Programs in Node: what `@huggingface/inference` reads, and the example of the guide."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import printed
from tests.documentation.answers import ADDRESS
from tests.documentation.markdown import ROOT, blocks
from tests.end_to_end.servers import RunningService, local_service
from tests.interop.conftest import JAVASCRIPT

Node = tuple[str, Path]
TEXT = "A superb film."


def ask(node: Node, url: str, body: object, token: str = "") -> dict[str, Any]:
    """What the client makes of the answer."""
    program, folder = node
    asked = (JAVASCRIPT / "ask.mjs", url, token, json.dumps(body))
    said: dict[str, Any] = json.loads(printed(program, *asked, folder=folder))
    return said


@pytest.mark.parametrize(
    ("path", "parameters", "count"), [("/", {}, 2), ("/hf", {"parameters": {"top_k": 1}}, 1)]
)
def test_labels_come_the_best_first(
    node: Node, running: RunningService, path: str, parameters: dict[str, Any], count: int
) -> None:
    said = ask(node, running.url + path, {"inputs": TEXT, **parameters})
    with running.client() as client:
        (prediction,) = client.post("/predict", json={"sentences": [TEXT]}).json()["predictions"]
    ranked = sorted(prediction["probabilities"].items(), key=lambda each: -each[1])
    listed = [{"label": label, "score": pytest.approx(score)} for label, score in ranked]
    assert said == {"answer": listed[:count]}


def test_a_problem_reaches_the_user_in_our_words(node: Node, running: RunningService) -> None:
    said = ask(node, f"{running.url}/hf", {"inputs": " "})
    assert (said["status"], said["body"]["type"]) == (422, "/problems/invalid-request")
    assert "inputs: the text is blank" in json.dumps(said)


def test_the_lock_names_no_registry_and_the_version_that_is_documented() -> None:
    lock = (JAVASCRIPT / "package-lock.json").read_text(encoding="utf-8")
    assert not re.search(r'"resolved"|https?:', lock)
    wanted = json.loads((JAVASCRIPT / "package.json").read_text("utf-8"))["dependencies"]
    packages = json.loads(lock)["packages"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert all("integrity" in each for name, each in packages.items() if name)


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("default")
    with local_service(ROOT / "checkpoints" / "default", folder) as running:
        yield running


def test_the_example_in_javascript(
    node: tuple[str, Path], default: RunningService, tmp_path: Path
) -> None:
    program, folder = node
    (example,) = blocks(ROOT / "docs" / "guides" / "moving-over.md", "js")
    assert ADDRESS in example.content
    script = tmp_path / "example.mjs"
    script.write_text(example.content.replace(ADDRESS, default.url), encoding="utf-8")
    # Node looks for packages beside the script.
    (tmp_path / "node_modules").symlink_to(folder / "node_modules")
    shutil.copy(folder / "package.json", tmp_path)
    assert printed(program, script, folder=tmp_path) == "positive 1.0\n"
