"""Where texts stand, which were cut, and what errors call them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import Prediction
from service.api.compat.errors import error_teller
from service.api.compat.families import ROUTERS, routers_of, schemas_of
from service.api.compat.texts import invalid, spell, truncated_header
from service.http.direct import direct_places
from service.settings import FAMILIES, Families, Family


def prediction(*, truncated: bool) -> Prediction:
    """Of a text."""
    return Prediction("good", 0.75, {"bad": 0.25, "good": 0.75}, 3, truncated=truncated)


@given(st.lists(st.booleans(), max_size=300))
def test_the_header_names_what_was_cut(cut: list[bool]) -> None:
    header = truncated_header([prediction(truncated=each) for each in cut])

    places = [str(place) for place, each in enumerate(cut) if each]
    more = [f"+{len(places) - 100}"] if len(places) > 100 else []
    told = [*places[:100], *more]
    assert header == ({"X-Headlight-Truncated": ",".join(told)} if told else {})


@pytest.mark.parametrize(
    ("loc", "spelled"),
    [
        (("inputs",), "inputs"),
        (("inputs", 3), "inputs[3]"),
        (("inputs", 3, 0), "inputs[3][0]"),
        (("dataframe_split", "data", 1, 2), "dataframe_split.data[1][2]"),
    ],
)
def test_places_are_spelled(loc: tuple[str | int, ...], spelled: str) -> None:
    assert spell(loc) == spelled
    error = invalid(loc, "is wrong")
    assert error.detail == f"body.{spelled}: is wrong."
    assert [(fault.loc, fault.msg) for fault in error.errors] == [(("body", *loc), "is wrong")]


@pytest.mark.parametrize("family", ROUTERS)
def test_a_family_that_is_on_has_its_router_and_schema(family: Family) -> None:
    one = Families(frozenset({family}))

    assert routers_of(one) == [ROUTERS[family]]
    assert len(schemas_of(one)) <= 1
    assert routers_of(Families(frozenset())) == schemas_of(Families(frozenset())) == []


def test_the_families_are_in_the_order_of_the_settings() -> None:
    assert [family for family in FAMILIES if family in ROUTERS] == list(ROUTERS)


@pytest.mark.parametrize(
    ("method", "path", "told"),
    [
        *(("POST", "/", True), ("GET", "/", False), ("PUT", "/", False)),
        *(("POST", "/hf", True), ("GET", "/hf", True), ("GET", "/hf/", False)),
        *(("GET", "/health", True), ("GET", "/health/ready", False), ("GET", "/health/x", False)),
        *(("POST", "/v1/classify", True), ("GET", "/v1", True), ("GET", "/v1/x", True)),
        *(("POST", "/predict", False), ("GET", "/docs", False), ("GET", "/hfx", False)),
        *(("GET", "", False), ("GET", "//", False), ("GET", "*", False)),
    ],
)
def test_problems_tell_error_on_the_paths_of_other_systems(
    method: str, path: str, *, told: bool
) -> None:
    scope = {"method": method, "path": path}

    assert error_teller(ROUTERS.values())(scope) is told
    assert error_teller([])(scope) is False
    assert error_teller([])({**scope, "headlight.tells_error": True}) is True


def test_the_short_way_takes_paths_whose_parameters_have_one_right_value() -> None:
    routes = [route for router in ROUTERS.values() for route in router.routes]

    places = direct_places(routes, {"model": "tiny"})  # type: ignore[arg-type]

    assert ("POST", "/classify") in places
    assert ("POST", "/v2/models/tiny/infer") in places
    assert all("{" not in path for _, path in places)
