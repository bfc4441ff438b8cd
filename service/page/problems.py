"""Answers `/problems` and `/problems/{word}`: what the `type` of a problem means.

They follow the setting of the documentation. A browser gets a page; `Accept` can ask for JSON or
plain text. The table comes from docs/reference/http.md, without its links. What stands in backticks
is code.
"""

import html
import re
from collections.abc import Mapping, Sequence
from string import Template

import orjson
from starlette.requests import Request
from starlette.responses import Response

from service.errors import ALL_ERRORS, TYPE_PREFIX, NotFoundError, ServiceError
from service.formats.json import JSON
from service.page.routes import HTML, REVALIDATE, answer_kept, asset_version, source
from service.routes.requests import answer_get, choose_form, make_router, require_access, state_of

router = make_router(include_in_schema=False)

KINDS: Mapping[str, type[ServiceError]] = {kind.type: kind for kind in ALL_ERRORS}

_TEXT = "text/plain"
_UNKNOWN = "There is no problem of this name: GET /problems lists all."
_CODE = re.compile("`([^`]*)`")
_LEAD = "What a problem of this service means, and what to do. Names in capitals are settings."


@answer_get(router, "/problems")
@answer_get(router, "/problems/{word}", name="problem")
async def problems(request: Request) -> Response:
    """Explains every kind of problem, or the one that the path names."""
    require_access(request, state_of(request).settings.docs)
    form = choose_form(request, HTML, JSON, _TEXT)
    word = request.path_params.get("word")
    if word is not None and word not in KINDS:
        raise NotFoundError(_UNKNOWN)
    kinds = list(KINDS.values()) if word is None else [KINDS[word]]
    if form == JSON:
        listed = [as_json(kind) for kind in kinds]
        content = orjson.dumps({"problems": listed} if word is None else listed[0])
    elif form == _TEXT:
        content = "\n".join(map(as_text, kinds)).encode()
    else:
        root, template = "" if word is None else "../", source("problems.html")
        content = as_page(template, kinds, root=root, version=asset_version()).encode()
    return await answer_kept(request, content, form, {**REVALIDATE, "Vary": "Accept"})


def as_json(kind: type[ServiceError]) -> dict[str, object]:
    """Returns one kind, for programs."""
    return {
        "type": TYPE_PREFIX + kind.type,
        "title": kind.title,
        "status": kind.status,
        "when": kind.when,
        "remedy": kind.remedy,
    }


def as_text(kind: type[ServiceError]) -> str:
    """Returns one kind, for a terminal."""
    return (
        f"{kind.type} ({kind.status}): {kind.title}\n"
        f"  when: {kind.when}\n  what to do: {kind.remedy}\n"
    )


def as_page(template: str, kinds: Sequence[type[ServiceError]], *, root: str, version: str) -> str:
    """Returns some kinds as a page; `root` leads from there to the root of the service."""
    title = kinds[0].title if len(kinds) == 1 else "Problems"
    return Template(template).substitute(
        title=html.escape(title),
        lead=html.escape(_LEAD),
        root=root,
        version=version,
        problems="\n".join(_section(kind, root) for kind in kinds),
    )


def _section(kind: type[ServiceError], root: str) -> str:
    return (
        f'    <section id="{kind.type}">\n'
        f'      <h2><a href="{root}problems/{kind.type}">{kind.type}</a></h2>\n'
        f"      <p>{html.escape(kind.title)}. The status is {kind.status}.</p>\n"
        f"      <p><strong>When:</strong> {_marked(kind.when)}.</p>\n"
        f"      <p><strong>What to do:</strong> {_marked(kind.remedy)}.</p>\n"
        f"    </section>"
    )


def _marked(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", html.escape(text))
