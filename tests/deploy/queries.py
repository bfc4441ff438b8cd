"""Finds every PromQL expression of the deployment, and what each asks for."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus"
BOARD = DEPLOY / "grafana" / "dashboards" / "headlight.json"
# What Grafana puts in place of the board's variables when all is chosen.
VARIABLES = {"$__rate_interval": "40s", "$job": ".*", "$instance": ".*", "$route": ".+"}


@dataclass(frozen=True, slots=True)
class Query:
    """An expression.

    Args:
        place: where it stands, for people.
        expression: with no variable in it.
        legend: how Grafana names its series.
    """

    place: str
    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Selector:
    """A series that an expression asks for.

    Args:
        name: of the series.
        matchers: labels, each with its operator and value.
    """

    name: str
    matchers: tuple[tuple[str, str, str], ...]


@cache
def rules() -> tuple[dict[str, Any], ...]:
    """All rules, as they are written."""
    return tuple(
        rule
        for path in (RULES / "recording.yml", RULES / "alerts.yml")
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    )


@cache
def recorded() -> frozenset[str]:
    """The names of the recorded series."""
    return frozenset(rule["record"] for rule in rules() if "record" in rule)


@cache
def alerts() -> dict[str, dict[str, Any]]:
    """The alerts by name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


@cache
def board() -> dict[str, Any]:
    """Grafana's board."""
    content: dict[str, Any] = json.loads(BOARD.read_text(encoding="utf-8"))
    return content


def panels() -> Iterator[dict[str, Any]]:
    """The panels of the board that ask for something."""
    return (panel for panel in board()["panels"] if panel["type"] != "row")


def panel_queries() -> list[Query]:
    """What the panels ask for, in their order."""
    return [
        Query(
            f"{panel['title']} {target['refId']}",
            expand(target["expr"]),
            target.get("legendFormat", ""),
        )
        for panel in panels()
        for target in panel["targets"]
    ]


def rule_queries() -> list[Query]:
    """What the rules ask for."""
    return [Query(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()]


def annotation_queries() -> list[Query]:
    """What the annotations of the board ask for."""
    return [Query(item["name"], expand(item["expr"])) for item in board()["annotations"]["list"]]


def expand(expression: str) -> str:
    """Puts in what Grafana would; a variable that nobody knows is a fault."""
    for name, value in VARIABLES.items():
        expression = re.sub(rf"{re.escape(name)}\b", value, expression)
    assert "$" not in expression, expression
    return expression


def selectors(expression: str) -> list[Selector]:
    """The series that an expression asks for; raises ValueError if it cannot be parsed."""
    return [
        Selector(
            node.name or "",
            tuple((each.name, str(each.op), each.value) for each in node.matchers.matchers),
        )
        for node in walk(promql_parser.parse(expression))
        if isinstance(node, promql_parser.VectorSelector)
    ]


def grouping(expression: str) -> set[str]:
    """The labels that an expression groups by."""
    return {
        label
        for node in walk(promql_parser.parse(expression))
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None
        for label in node.modifier.labels
    }


def aggregated(expression: str) -> Iterator[tuple[set[str], set[str]]]:
    """For each aggregation of an expression the labels that it keeps, and the series that it has.

    A series on the other side of an operator inside has to have the labels that are matched alone.
    """
    for node in walk(promql_parser.parse(expression)):
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            inner = list(walk(node.expr))
            if not any(isinstance(each, promql_parser.AggregateExpr) for each in inner):
                series = {
                    each.name or ""
                    for each in inner
                    if isinstance(each, promql_parser.VectorSelector)
                }
                yield set(node.modifier.labels), series


def walk(node: object) -> Iterator[object]:
    """A node of an expression, and all in it."""
    yield node
    for name in ("lhs", "rhs", "expr", "vector_selector", "args"):
        inner = getattr(node, name, None)
        for each in inner if isinstance(inner, list) else [inner]:
            if each is not None:
                yield from walk(each)
