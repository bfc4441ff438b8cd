"""Answers `/problems` and `/problems/{word}`: what the `type` of a problem means.

They follow the setting of the documentation. A browser gets a page; `Accept` can ask for JSON or
plain text.
"""

from collections.abc import Sequence

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.openapi import PAGE
from service.api.problems import KINDS, as_json, as_page, as_text
from service.api.requests import choose_form, require_access
from service.api.routes import answer_get
from service.api.routes.pages import HTML, REVALIDATE, UNCHANGED, answer_kept, asset_version, source
from service.api.state import state_of
from service.errors import NotFoundError, ServiceError
from service.formats.json import JSON

_TEXT = "text/plain"
_UNKNOWN = "There is no problem of this name: GET /problems lists all."

router = APIRouter(include_in_schema=False)


@answer_get(router, "/problems", responses={**PAGE, **UNCHANGED})
async def problems(request: Request) -> Response:
    """Explains every kind of problem."""
    form = _admit(request)
    kinds = list(KINDS.values())
    if form == JSON:
        content = orjson.dumps({"problems": [as_json(kind) for kind in kinds]})
        return _answer(request, content, form)
    return _answer(request, _written(kinds, form, root=""), form)


@answer_get(router, "/problems/{word}", responses={**PAGE, **UNCHANGED})
async def problem(request: Request, word: str) -> Response:
    """Explains one kind of problem."""
    form = _admit(request)
    if word not in KINDS:
        raise NotFoundError(_UNKNOWN)
    kind = KINDS[word]
    if form == JSON:
        return _answer(request, orjson.dumps(as_json(kind)), form)
    return _answer(request, _written([kind], form, root="../"), form)


def _admit(request: Request) -> str:
    require_access(request, state_of(request).settings.docs)
    return choose_form(request, HTML, JSON, _TEXT)


def _written(kinds: Sequence[type[ServiceError]], form: str, *, root: str) -> bytes:
    if form == _TEXT:
        return as_text(kinds).encode()
    page = as_page(source("problems.html"), kinds, root=root, version=asset_version())
    return page.encode()


def _answer(request: Request, content: bytes, form: str) -> Response:
    return answer_kept(request, content, form, {**REVALIDATE, "Vary": "Accept"})
