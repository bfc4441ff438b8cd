"""Answers `/`, `/docs`, `/openapi.json` and `/static`: pages and what they load.

No file comes from elsewhere. The pages refer to their files as `static/VERSION/NAME`. The version
is a digest of all files, so a browser keeps them for a year and asks again only for the page. One
version for all files keeps the relative imports between modules right.
"""

import hashlib
import re
from functools import cache
from pathlib import Path, PurePath

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from service.errors import NOT_FOUND_DETAIL, NotFoundError
from service.formats.json import JSON
from service.routes.requests import answer_get, choose_form, make_router, require_access, state_of

HTML = "text/html"
_ASSET_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Swagger UI sets styles inline and draws its icons from data URIs.
_DOCS_POLICY = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "frame-ancestors 'none'"
)
# The page draws the service's picture from memory, to save it as PNG.
_PAGE_POLICY = "default-src 'self'; img-src 'self' blob:; frame-ancestors 'none'"
_FOLDER = Path(__file__).parent
_VERSION = re.compile(r"[0-9a-f]{12}")
_ENTRY = re.compile(r'src="static/([^"]+)" type="module"')
_IMPORT = re.compile(r' from "\./([^"]+)"')
REVALIDATE = {"Cache-Control": "no-cache"}

router = make_router(include_in_schema=False)


@answer_get(router, "/")
async def page(request: Request) -> Response:
    """Shows the page: type a sentence, see the prediction and its heads."""
    state = state_of(request)
    require_access(request, state.settings.page)
    # Without a key the example of a first visit would only be refused.
    headers = {**REVALIDATE, "Content-Security-Policy": _PAGE_POLICY}
    return _answer_page(request, "index.html", headers, has_keys=bool(state.api_keys))


@answer_get(router, "/docs")
async def docs(request: Request) -> Response:
    """Shows the interface, to read and to try."""
    require_access(request, state_of(request).settings.docs)
    headers = {**REVALIDATE, "Content-Security-Policy": _DOCS_POLICY}
    return _answer_page(request, "docs.html", headers)


@answer_get(router, "/openapi.json")
async def openapi(request: Request) -> Response:
    """Describes the interface for machines."""
    require_access(request, state_of(request).settings.docs)
    choose_form(request, JSON)
    return Response(await request.app.document(), media_type=JSON)


def _answer_page(
    request: Request, name: str, headers: dict[str, str], *, has_keys: bool = False
) -> Response:
    choose_form(request, HTML)
    return answer_kept(request, _html(name, has_keys=has_keys), HTML, headers)


def answer_kept(
    request: Request, content: bytes, media_type: str, headers: dict[str, str]
) -> Response:
    """Answers with a body that a browser keeps, or with 304 if it has the same one already."""
    # A browser takes the headers of a 304 too, so they are those of the whole answer.
    headers = {**headers, "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}
    response = Response(content, media_type=media_type, headers=headers)
    if _static().is_not_modified(response.headers, request.headers):
        return Response(status_code=304, headers=headers)
    return response


@answer_get(router, "/static/{name}")
@answer_get(router, "/static/{version}/{name}", name="versioned")
async def asset(request: Request) -> Response:
    """Sends a file that a page loads, maybe under the version of all of them."""
    settings = state_of(request).settings
    name, version = request.path_params["name"], request.path_params.get("version")
    require_access(request, settings.page, settings.docs)
    current, tags = _assets()
    if name not in tags or (version is not None and not _VERSION.fullmatch(version)):
        raise NotFoundError(NOT_FOUND_DETAIL)
    # A server may ignore ranges (RFC 9110, section 14.2); a refused one would not be a problem.
    request.scope["headers"] = [each for each in request.scope["headers"] if each[0] != b"range"]
    response = await _static().get_response(name, request.scope)
    response.headers.update({**REVALIDATE, "Accept-Ranges": "none"})
    # While replicas are replaced, a page of one version asks a replica of another; and files can
    # be replaced under a running process. Nobody keeps such an answer.
    if version == current and response.headers["ETag"] == tags[name]:
        reach = "public" if "open" in (settings.page, settings.docs) else "private"
        response.headers["Cache-Control"] = f"{reach}, max-age=31536000, immutable"
    if response.status_code == 200:
        response.headers["Content-Type"] = _ASSET_TYPES[PurePath(name).suffix]
    return response


@cache
def _static() -> StaticFiles:
    return StaticFiles(directory=_FOLDER / "static", packages=[("fastapi_swagger", "resources")])


@cache
def _assets() -> tuple[str, dict[str, str]]:
    """Returns the version of all files that pages load, and the ETag of each by its name."""
    digest, tags = hashlib.sha256(), {}
    files = [file for folder in _static().all_directories for file in Path(folder).iterdir()]
    for file in sorted(files, key=lambda file: file.name):
        if file.suffix in _ASSET_TYPES:
            tags[file.name] = FileResponse(file, stat_result=file.stat()).headers["ETag"]
            content = hashlib.sha256(file.read_bytes())
            digest.update(f"{file.name} {content.hexdigest()}\n".encode())
    return digest.hexdigest()[:12], tags


def asset_version() -> str:
    """Returns the version under which pages name their files."""
    return _assets()[0]


@cache
def source(name: str) -> str:
    """Returns a page as it lies in its folder."""
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def _html(name: str, *, has_keys: bool) -> bytes:
    """Returns a page that names the version of its files, and all its modules at its head."""
    html = source(name)
    modules = _ENTRY.findall(html)
    entries = len(modules)
    for module in modules:  # grows as imports are found
        imported = _IMPORT.findall((_FOLDER / "static" / module).read_text(encoding="utf-8"))
        modules += [each for each in dict.fromkeys(imported) if each not in modules]
    links = [
        f'  <link rel="modulepreload" href="static/{module}">\n' for module in modules[entries:]
    ]
    html = html.replace("</head>", "".join([*links, "</head>"]))
    if has_keys:
        html = html.replace("<html ", "<html data-keys ", 1)
    return html.replace('="static/', f'="static/{asset_version()}/').encode()
