"""docs/reference/compatible.md names the paths, the fields, and the clients that are tested."""

import json
import tomllib

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel

from service.api.compat.base import TRUNCATED
from service.api.compat.classify import ClassifyRequest
from service.api.compat.families import ROUTERS
from service.api.compat.huggingface import InputsRequest, Parameters
from service.api.compat.mlflow import InvocationsRequest
from service.settings import FAMILIES
from tests.documentation.markdown import REFERENCE, ROOT, code, codes, rows, sections

PAGE = REFERENCE / "compatible.md"
TABLE = rows(PAGE, "method", "path", "system", "client tried", "version")
# Those that another page describes.
_ELSEWHERE = {"openinference"}


def test_every_path_is_named_with_its_methods() -> None:
    served = {
        (method, route.path)
        for family, router in ROUTERS.items()
        if family not in _ELSEWHERE
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }

    documented = {
        (method, codes(path)[0]) for methods, path, *_ in TABLE for method in codes(methods)
    }

    assert documented == served | {("POST", "/predict")}


def test_every_client_that_was_tried_is_installed_in_that_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pins = [pin for extra in project["optional-dependencies"].values() for pin in extra]
    package = ROOT / "tests" / "interop" / "javascript" / "package.json"
    scripts = json.loads(package.read_text("utf-8"))["dependencies"]

    tried = {(codes(client)[0], version) for *_, client, version in TABLE if version}

    installed = {tuple(pin.split("==")) for pin in pins} | set(scripts.items())
    assert len(tried) == 3
    assert tried <= installed


def test_a_client_has_a_version_and_none_has_not() -> None:
    assert {bool(codes(client)) == bool(version) for *_, client, version in TABLE} == {True}


@pytest.mark.parametrize(
    ("header", "schema"),
    [
        (("sent as `inputs`",), InputsRequest),
        (("in `parameters`",), Parameters),
        (("sent to `/classify`",), ClassifyRequest),
        (("sent to `/invocations`",), InvocationsRequest),
    ],
)
def test_every_field_is_described(header: tuple[str], schema: type[BaseModel]) -> None:
    named = [name for cells in rows(PAGE, *header) for name in codes(cells[0])]

    assert sorted(named) == sorted(schema.model_fields)


@pytest.mark.parametrize(
    ("header", "schema"),
    [("sent as `inputs`", InputsRequest), ("sent to `/classify`", ClassifyRequest)],
)
def test_what_is_needed_is_told(header: str, schema: type[BaseModel]) -> None:
    needed = {code(name) for name, default, _ in rows(PAGE, header) if default == "required"}

    assert needed == {name for name, field in schema.model_fields.items() if field.is_required()}


def test_the_header_and_the_families_have_their_names() -> None:
    shared = sections(PAGE)["What holds for all of them"]

    assert f"`{TRUNCATED}`" in shared
    assert all(f"`{family}`" in shared for family in FAMILIES)
