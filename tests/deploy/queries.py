"""Reads the rules of Prometheus and the board of Grafana."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus"
BOARD = DEPLOY / "grafana" / "dashboards" / "headlight.json"
# What Grafana puts in place of the board's variables when all is chosen.
CHOSEN = {"$job": ".*", "$namespace": ".*", "$service": ".*", "$instance": ".*", "$route": ".+"}
VARIABLES = {"$__rate_interval": "40s", **CHOSEN}


@cache
def rules() -> tuple[dict[str, Any], ...]:
    return tuple(
        rule
        for path in (RULES / "recording.yml", RULES / "alerts.yml")
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    )


@cache
def recorded() -> frozenset[str]:
    return frozenset(rule["record"] for rule in rules() if "record" in rule)


@cache
def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


@cache
def board() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(BOARD.read_text(encoding="utf-8"))
    return content


def panels() -> Iterator[dict[str, Any]]:
    """The panels of the board that ask for something."""
    return (panel for panel in board()["panels"] if panel["type"] != "row")


def panel_queries() -> list[str]:
    return [expand(target["expr"]) for panel in panels() for target in panel["targets"]]


def expand(expression: str) -> str:
    """Puts in what Grafana would; an unknown variable is a fault."""
    for name, value in VARIABLES.items():
        expression = re.sub(rf"{re.escape(name)}\b", value, expression)
    assert "$" not in expression, expression
    return expression
