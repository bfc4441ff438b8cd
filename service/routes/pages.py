"""`GET /`, `/docs` and `/openapi.json`: what a person opens; no asset comes from elsewhere."""

from functools import cache
from importlib.resources import files

import orjson
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from service.answers import JSON
from service.dependencies import offers
from service.openapi import PAGE

_HTML = "text/html"
# Swagger UI sets styles inline and draws its icons from data URIs.
_DOCS_POLICY = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'"

router = APIRouter(include_in_schema=False, responses=PAGE)


@router.get("/", dependencies=[Depends(offers(_HTML))])
async def page() -> Response:
    """Shows the page: type a sentence, see the prediction and its heads."""
    return Response(_file("index.html"), media_type=_HTML)


@router.get("/docs", dependencies=[Depends(offers(_HTML))])
async def docs() -> Response:
    """Shows the interface, to read and to try."""
    headers = {"Content-Security-Policy": _DOCS_POLICY}
    return Response(_file("docs.html"), media_type=_HTML, headers=headers)


@router.get("/openapi.json", dependencies=[Depends(offers(JSON))])
async def openapi(request: Request) -> Response:
    """Describes the interface for machines."""
    return Response(orjson.dumps(request.app.openapi()), media_type=JSON)


def assets() -> list[Mount]:
    """The files that the pages load."""
    return [
        Mount("/static/swagger", StaticFiles(packages=[("fastapi_swagger", "resources")])),
        Mount("/static", StaticFiles(packages=[("service", "page/static")])),
    ]


@cache
def _file(name: str) -> bytes:
    return (files("service") / "page" / name).read_bytes()
