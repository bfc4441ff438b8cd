"""The checks of the guide to hardening, asked of a running replica."""

import shlex

import pytest

from tests.containers.engine import ROOT
from tests.containers.stack import PROJECT, Stack
from tests.documentation.markdown import code, rows

CHECKS = rows(ROOT / "docs" / "guides" / "deploy.md", "what", "check", "prints")


@pytest.mark.parametrize(
    ("check", "prints"), [(code(check), code(prints)) for _, check, prints in CHECKS]
)
def test_prints_what_the_guide_says(stack: Stack, check: str, prints: str) -> None:
    replica = stack.replicas()[0]
    program, *arguments = _split(check, replica, f"{PROJECT}_replicas")
    assert program == "docker"
    assert stack.engine.docker(*arguments) == prints


def _split(check: str, replica: str, network: str) -> list[str]:
    """The words of a check, about a container and the network that it is on."""
    return shlex.split(check.replace("$REPLICA", replica).replace("headlight_replicas", network))
