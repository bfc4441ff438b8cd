"""Answers `/`, `/docs`, `/openapi.json` and `/static`: pages and what they load.

No file comes from elsewhere. The pages refer to their files as `static/VERSION/NAME`. The version
is a digest of all files, so a browser keeps them for a year and asks again only for the page. One
version for all files keeps the relative imports between modules right. Each answer is compressed
once, when it is first asked for.
"""

import asyncio
import gzip
import hashlib
import re
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path, PurePath

from starlette.requests import Request
from starlette.responses import Response

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
    return await _answer_page(request, "index.html", headers, has_keys=bool(state.api_keys))


@answer_get(router, "/docs")
async def docs(request: Request) -> Response:
    """Shows the interface, to read and to try."""
    require_access(request, state_of(request).settings.docs)
    headers = {**REVALIDATE, "Content-Security-Policy": _DOCS_POLICY}
    return await _answer_page(request, "docs.html", headers)


@answer_get(router, "/openapi.json")
async def openapi(request: Request) -> Response:
    """Describes the interface for machines."""
    require_access(request, state_of(request).settings.docs)
    choose_form(request, JSON)
    return await answer_kept(request, await request.app.document(), JSON, REVALIDATE)


async def _answer_page(
    request: Request, name: str, headers: dict[str, str], *, has_keys: bool = False
) -> Response:
    choose_form(request, HTML)
    return await answer_kept(request, _html(name, has_keys=has_keys), HTML, headers)


async def answer_kept(
    request: Request, content: bytes, media_type: str, headers: dict[str, str]
) -> Response:
    """Answers with a body that a browser keeps, or with 304 if it has the same one already."""
    # The largest takes a tenth of a second.
    tag, packed = await asyncio.to_thread(_pack, content)
    vary = ", ".join(filter(None, [headers.get("Vary"), "Accept-Encoding"]))
    headers = {**headers, "ETag": f'"{tag}"', "Vary": vary}
    if "gzip" in re.split(r"[\s,]+", request.headers.get("accept-encoding", "")):
        content = packed
        headers |= {"ETag": f'"{tag}-gzip"', "Content-Encoding": "gzip"}
    # A browser takes the headers of a 304 too: they describe the whole answer.
    known = re.findall(r'\*|"[^"]*"', request.headers.get("if-none-match", ""))
    if "*" in known or headers["ETag"] in known:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


@lru_cache(maxsize=128)
def _pack(content: bytes) -> tuple[str, bytes]:
    """Returns the digest of a body, and the body compressed."""
    return hashlib.sha256(content).hexdigest()[:32], gzip.compress(content, mtime=0)


@answer_get(router, "/static/{name}")
@answer_get(router, "/static/{version}/{name}", name="versioned")
async def asset(request: Request) -> Response:
    """Sends a file that a page loads, maybe under the version of all of them."""
    settings = state_of(request).settings
    name, version = request.path_params["name"], request.path_params.get("version")
    require_access(request, settings.page, settings.docs)
    if name not in _assets() or (version is not None and not _VERSION.fullmatch(version)):
        raise NotFoundError(NOT_FOUND_DETAIL)
    headers = REVALIDATE
    # While replicas are replaced, a page of one version asks a replica of another. Nobody keeps
    # such an answer.
    if version == asset_version():
        reach = "public" if "open" in (settings.page, settings.docs) else "private"
        headers = {"Cache-Control": f"{reach}, max-age=31536000, immutable"}
    media_type = _ASSET_TYPES[PurePath(name).suffix]
    return await answer_kept(request, _assets()[name], media_type, headers)


@cache
def _assets() -> dict[str, bytes]:
    """Returns the content of all files that pages load, by their names."""
    folders = (_FOLDER / "static", files("fastapi_swagger") / "resources")
    found = [file for folder in folders for file in folder.iterdir()]
    return {
        file.name: file.read_bytes() for file in found if PurePath(file.name).suffix in _ASSET_TYPES
    }


@cache
def asset_version() -> str:
    """Returns the version under which pages name their files."""
    digest = hashlib.sha256()
    for name, content in sorted(_assets().items()):
        digest.update(name.encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()[:12]


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
        imported = _IMPORT.findall(_assets()[module].decode())
        modules += [each for each in dict.fromkeys(imported) if each not in modules]
    links = [
        f'  <link rel="modulepreload" href="static/{module}">\n' for module in modules[entries:]
    ]
    html = html.replace("</head>", "".join([*links, "</head>"]))
    if has_keys:
        html = html.replace("<html ", "<html data-keys ", 1)
    return html.replace('="static/', f'="static/{asset_version()}/').encode()
