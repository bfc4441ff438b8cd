"""The last step of docs/tutorial.md: a model of one's own in two replicas."""

from dataclasses import replace
from pathlib import Path

from model.checkpoint.opening import open_checkpoint
from tests.builders import tiny_checkpoint
from tests.containers.engine import ROOT, Engine
from tests.containers.stack import running_stack
from tests.documentation.markdown import blocks

PAGE = ROOT / "docs" / "tutorial.md"
_MOUNTED = "./checkpoints/messages:"


def test_the_override_serves_the_model(engine: Engine, image: str, tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "messages")
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (override,) = blocks(PAGE, "yaml")
    assert _MOUNTED in override.content
    file = tmp_path / "docker-compose.override.yml"
    file.write_text(override.content.replace(_MOUNTED, f"{folder}:"), encoding="utf-8")
    variables = {
        **engine.environment,
        "COMPOSE_FILE": f"{ROOT / 'docker-compose.yml'}:{file}",
        "COMPOSE_PROJECT_NAME": "headlight-tutorial",
    }

    with running_stack(replace(engine, environment=variables), image) as stack:
        stack.await_replicas(2)
        answer = stack.predict("Do you deliver to Iceland?")

    assert answer.status == 200
    version = open_checkpoint(folder).version
    assert answer.json()["model"] == {"name": "messages", "version": version}
