"""`GET /`, `/docs` and `/openapi.json`: what a person opens; no asset comes from elsewhere."""

from functools import cache
from importlib.resources import files
from pathlib import PurePath

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.openapi import ASSET, PAGE
from service.api.requests import choose_form, require_access
from service.api.routes import answer_get
from service.api.state import state_of
from service.errors import NOT_FOUND_DETAIL, NotFoundError
from service.formats.json import JSON

_HTML = "text/html"
_ASSET_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# Swagger UI sets styles inline and draws its icons from data URIs.
_DOCS_POLICY = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'"

router = APIRouter(include_in_schema=False)


@answer_get(router, "/", responses=PAGE)
async def page(request: Request) -> Response:
    """Shows the page: type a sentence, see the prediction and its heads."""
    require_access(request, state_of(request).settings.page)
    choose_form(request, _HTML)
    return Response(_file("index.html"), media_type=_HTML)


@answer_get(router, "/docs", responses=PAGE)
async def docs(request: Request) -> Response:
    """Shows the interface, to read and to try."""
    require_access(request, state_of(request).settings.docs)
    choose_form(request, _HTML)
    headers = {"Content-Security-Policy": _DOCS_POLICY}
    return Response(_file("docs.html"), media_type=_HTML, headers=headers)


@answer_get(router, "/openapi.json", responses=PAGE)
async def openapi(request: Request) -> Response:
    """Describes the interface for machines."""
    require_access(request, state_of(request).settings.docs)
    choose_form(request, JSON)
    return Response(orjson.dumps(request.app.openapi()), media_type=JSON)


@answer_get(router, "/static/{name}", responses=ASSET)
async def asset(request: Request, name: str) -> Response:
    """Sends a file that a page loads."""
    settings = state_of(request).settings
    require_access(request, settings.page, settings.docs)
    if name not in _assets():
        raise NotFoundError(NOT_FOUND_DETAIL)
    return Response(_assets()[name], media_type=_ASSET_TYPES[PurePath(name).suffix])


@cache
def _file(name: str) -> bytes:
    return (files("service") / "page" / name).read_bytes()


@cache
def _assets() -> dict[str, bytes]:
    """All files that pages load, by their names."""
    folders = (files("fastapi_swagger") / "resources", files("service") / "page" / "static")
    return {
        file.name: file.read_bytes()
        for folder in folders
        for file in folder.iterdir()
        if PurePath(file.name).suffix in _ASSET_TYPES
    }
