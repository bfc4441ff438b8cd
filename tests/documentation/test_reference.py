"""What the reference pages say by hand is what the code has."""

import re
import sys
from pathlib import Path
from typing import get_args

import httpx
import pytest
from fastapi.routing import APIRoute
from opentelemetry import environment_variables
from opentelemetry.sdk import environment_variables as sdk_variables
from pydantic import BaseModel

from model.checkpoint import records
from model.checkpoint.manifest import Manifest
from model.network.config import Activation
from service.app import ROUTERS
from service.compat.classify import ClassifyRequest
from service.compat.huggingface import InputsRequest, Parameters
from service.compat.mlflow import InvocationsRequest
from service.compat.openinference_schemas import InferRequest, RequestParameters
from service.compat.tensors import HEADER
from service.errors import Refusal
from service.routes import request_schemas, schemas
from service.routes.attention import FORMS
from service.settings import FAMILIES
from tests.builders import tiny_checkpoint
from tests.commands import finish
from tests.documentation.markdown import REFERENCE, code, codes, examples, rows, sections
from tests.end_to_end.servers import environment
from tools import tables
from training.compare.variants import VARIANTS
from training.fit.recipe import Recipe

HTTP = REFERENCE / "http.md"
CHECKPOINT = REFERENCE / "checkpoint.md"
ROUTES = rows(HTTP, "method", "path")


def _spans(section: str) -> set[str]:
    """The code spans of a section of the page on HTTP, and of its parts."""
    return set(codes(re.sub(r"```.*?```", "", sections(HTTP)[section], flags=re.DOTALL)))


def test_every_route_has_its_methods() -> None:
    served = {
        (method, route.path.replace(":path", ""))
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    documented = [
        (method, path)
        for methods, paths, *_ in ROUTES
        for method in codes(methods)
        for path in codes(paths)
    ]
    assert sorted(documented) == sorted(served)


def test_the_paths_that_need_a_key_are_named(url: str) -> None:
    described = {
        (method.upper(), path): "401" in operation["responses"]
        for path, operations in httpx.get(f"{url}/openapi.json").json()["paths"].items()
        for method, operation in operations.items()
    }
    documented = {
        (method, path): key == "yes"
        for methods, paths, _, key in ROUTES
        for method in codes(methods)
        for path in codes(paths)
    }
    # A setting decides whether this one needs a key.
    described.pop(("GET", "/metrics"))
    assert {route: documented[route] for route in described} == described


@pytest.mark.parametrize(
    ("section", "schema"),
    [
        ("POST /predict", schemas.ItemAnswer),
        ("POST /predict", schemas.SentenceAnswer),
        ("GET /attention and POST /attention", schemas.AttentionAnswer),
        ("GET /attention and POST /attention", schemas.TokenAnswer),
        ("POST /attention/steps", request_schemas.StepsRequest),
        ("POST /attention/steps", schemas.StepsAnswer),
        ("POST /attributions", schemas.AttributionsAnswer),
        ("POST /importance", request_schemas.ImportanceRequest),
        ("POST /importance", schemas.ImportanceAnswer),
        ("GET /model", schemas.ModelAnswer),
        ("GET /model", schemas.ThresholdsAnswer),
        ("GET /model", schemas.ThresholdAnswer),
        ("GET /model", schemas.LimitsAnswer),
        ("Errors", schemas.Problem),
        ("Other systems' paths", InputsRequest),
        ("Other systems' paths", Parameters),
        ("Other systems' paths", ClassifyRequest),
        ("Other systems' paths", InvocationsRequest),
        ("Other systems' paths", InferRequest),
        ("Other systems' paths", RequestParameters),
    ],
)
def test_every_field_is_named(section: str, schema: type[BaseModel]) -> None:
    assert set(schema.model_fields) - {"model"} - _spans(section) == set()


def test_forms_and_families_are_named() -> None:
    forms = {code(media_type): code(form) for form, media_type, _ in rows(HTTP, "form")}
    assert forms == FORMS
    named = _spans("Other systems' paths")
    assert {HEADER, "X-Headlight-Truncated", *FAMILIES} <= named


def test_the_example_of_wrong_settings_is_what_is_printed() -> None:
    (example,) = examples(REFERENCE / "settings.md")
    programs = str(Path(sys.executable).parent)
    env = {**environment(), "PATH": f"{programs}:/usr/bin:/bin"}
    done = finish("sh", "-c", example.command, env=env)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.rstrip("\n") == example.output


def test_every_variable_of_traces_is_one_of_opentelemetry() -> None:
    known = {*vars(environment_variables), *vars(sdk_variables)}
    named = re.findall(r"^- `(OTEL_\w+)`", (REFERENCE / "settings.md").read_text("utf-8"), re.M)
    assert len(named) == len(set(named)) > 10
    assert set(named) <= known


def test_every_field_of_a_checkpoint_is_named(tmp_path: Path) -> None:
    named = set(codes(CHECKPOINT.read_text(encoding="utf-8")))
    kinds = (
        Manifest,
        records.DataSource,
        records.Metric,
        records.Precision,
        records.PrecisionSet,
        records.Baseline,
        records.Thresholds,
        records.Threshold,
    )
    fields = {field for kind in kinds for field in kind.model_fields}
    assert fields - named == set()
    assert set(get_args(Activation)) <= named
    written = {file.name for file in tiny_checkpoint(tmp_path / "tiny").iterdir()}
    assert {code(file) for file, _ in rows(CHECKPOINT, "file")} == written


def test_every_reason_of_a_refusal_is_named() -> None:
    section = sections(REFERENCE / "metrics.md")["Reasons of a refusal"]
    assert set(codes(section)) >= {reason.value for reason in Refusal}


def test_queries_ask_for_metrics_that_there_are() -> None:
    page = REFERENCE / "metrics.md"
    asked = re.findall(r"headlight_\w+", sections(page)["Queries"])
    known = {
        code(line.split()[1])
        for line in page.read_text("utf-8").splitlines()
        if "- `headlight_" in line
    }
    assert {name.removesuffix("_bucket") for name in asked} <= known


def test_every_command_has_a_section_and_every_field_of_a_recipe_a_word() -> None:
    page = REFERENCE / "command-line.md"
    programs = {"score": "headlight-score"}
    names = {programs.get(name, f"headlight-train {name}") for name in tables.parsers()}
    assert set(sections(page)) == {"headlight-serve", *names, "make"}
    named = set(codes(page.read_text(encoding="utf-8")))
    options = {f"--{field.replace('_', '-')}" for field in Recipe.model_fields}
    assert {x for x in options if x not in named and x[2:].replace("-", "_") not in named} == set()
    assert all(name in page.read_text(encoding="utf-8") for name in VARIANTS)
