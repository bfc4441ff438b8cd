"""The JavaScript of docs/guides/moving-over.md runs, and prints the verdict of the model."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import printed
from tests.documentation.answers import ADDRESS
from tests.documentation.markdown import ROOT, blocks
from tests.end_to_end.servers import RunningService, local_service


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
