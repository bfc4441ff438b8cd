"""Answers `/problems` and `/problems/{word}`: what the `type` of a problem means.

They follow the setting of the documentation. A browser gets a page; `Accept` can ask for JSON or
plain text. The table is that of docs/reference/http.md, without its links. What stands in backticks
is code.
"""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template

import orjson
from starlette.requests import Request
from starlette.responses import Response

from service.errors import ALL_ERRORS, TYPE_PREFIX, NotFoundError, ServiceError
from service.formats.json import JSON
from service.page.routes import HTML, REVALIDATE, UNCHANGED, answer_kept, asset_version, source
from service.routes.openapi import PAGE
from service.routes.requests import answer_get, choose_form, make_router, require_access, state_of

router = make_router(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Explanation:
    """When a kind of problem is answered, and what the client can do about it."""

    when: str
    remedy: str


EXPLANATIONS: Mapping[str, Explanation] = {
    "malformed-json": Explanation(
        "the body is empty, is not UTF-8 JSON, is nested too deep, or is followed by "
        "something else",
        "send one JSON object",
    ),
    "unauthorized": Explanation(
        "keys are set and the request has no valid one; `detail` says whether a key is "
        "wrong or missing, and the answer has the header `WWW-Authenticate: Bearer`, with "
        '`error="invalid_token"` if a key was sent',
        "send `Authorization: Bearer <key>`",
    ),
    "cross-site": Explanation(
        "a page of another origin made a browser send `GET /attention`, or `infer` "
        "(`Sec-Fetch-Site`)",
        "send it with `POST`, or name the page's origin in `ALLOWED_ORIGINS`",
    ),
    "not-found": Explanation(
        "nothing is at this path",
        "look at `GET /docs`, which shows what there is",
    ),
    "method-not-allowed": Explanation(
        "the path does not take this method; the header `Allow` lists those it takes",
        "use one of those",
    ),
    "not-acceptable": Explanation(
        "`Accept` names no form that is offered",
        "accept `application/json`, or leave `Accept` out",
    ),
    "payload-too-large": Explanation(
        "the body is larger than `MAX_BODY_BYTES`, by its declared length or as its bytes "
        "arrive; the connection is closed",
        "send fewer sentences at once",
    ),
    "too-many-weights": Explanation(
        "an answer of `/attention` or `/attention/steps` would hold more than "
        "`MAX_ATTENTION_WEIGHTS` numbers, or be too large with its texts",
        "choose layers and heads, or shorten the text",
    ),
    "too-much-work": Explanation(
        "even an idle replica cannot compute it in time; `fits` says how many `tokens` or `steps` "
        "it can",
        "divide the texts among several requests, or ask for fewer steps",
    ),
    "unsupported-media-type": Explanation(
        "the content type is missing or is not JSON in UTF-8, or the body is compressed",
        "send `Content-Type: application/json` and plain bytes",
    ),
    "misdirected": Explanation(
        "`ALLOWED_HOSTS` is set, and the header `Host` names none of them",
        "use one of the service's own names",
    ),
    "invalid-request": Explanation(
        "a field is missing, unknown, given twice, of the wrong type or out of range; a text "
        "is blank or not valid Unicode; or `X-Request-Timeout` is not a number of seconds",
        "correct what `errors` lists",
    ),
    "text-too-long": Explanation(
        "`truncation` is `error` and the text does not fit, or it is `window` and the text takes "
        "more than `MAX_WINDOWS` windows; the text has more than 1,024 sentences, "
        "and `granularity` is `sentence`; or the normalizer of a foreign checkpoint makes a long "
        "text more than four times as long",
        "shorten it, or allow truncation",
    ),
    "rate-limited": Explanation(
        "the key or the address has used up its requests or tokens",
        "try again after `Retry-After`",
    ),
    "internal": Explanation(
        "a fault of the service, or a text that the model cannot compute; the log explains it",
        "try again, unless `detail` says that it would fail too, and give the `X-Request-ID` "
        "to the operator",
    ),
    "overloaded": Explanation(
        "the queue has no room, or the wait would be longer than the request has; large answers "
        "that clients have not read leave no room; all connections are taken, or the memory nearly "
        "is",
        "try again after `Retry-After`, or ask another replica",
    ),
    "not-ready": Explanation(
        "the model is loading or could not be loaded, or a forward pass failed or hangs",
        "try again after `Retry-After`, or ask another replica",
    ),
    "draining": Explanation(
        "the drain time is over and the process is about to end; `/health/ready` says it from"
        " the start of the drain",
        "ask another replica",
    ),
    "timeout": Explanation(
        "no answer was ready within `REQUEST_TIMEOUT` or `X-Request-Timeout`; the work was dropped",
        "send less at once, or try again later",
    ),
}
KINDS: Mapping[str, type[ServiceError]] = {kind.type: kind for kind in ALL_ERRORS}

_TEXT = "text/plain"
_UNKNOWN = "There is no problem of this name: GET /problems lists all."
_CODE = re.compile("`([^`]*)`")
_LEAD = "What a problem of this service means, and what to do. Names in capitals are settings."


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
async def problem(request: Request) -> Response:
    """Explains one kind of problem."""
    form, word = _admit(request), request.path_params["word"]
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


def as_json(kind: type[ServiceError]) -> dict[str, object]:
    """Returns one kind, for programs."""
    known = EXPLANATIONS[kind.type]
    return {
        "type": TYPE_PREFIX + kind.type,
        "title": kind.title,
        "status": kind.status,
        "when": known.when,
        "remedy": known.remedy,
    }


def as_text(kinds: Sequence[type[ServiceError]]) -> str:
    """Returns some kinds, for a terminal."""
    return "\n".join(
        f"{kind.type} ({kind.status}): {kind.title}\n"
        f"  when: {EXPLANATIONS[kind.type].when}\n"
        f"  what to do: {EXPLANATIONS[kind.type].remedy}\n"
        for kind in kinds
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
    known = EXPLANATIONS[kind.type]
    return (
        f'    <section id="{kind.type}">\n'
        f'      <h2><a href="{root}problems/{kind.type}">{kind.type}</a></h2>\n'
        f"      <p>{html.escape(kind.title)}. The status is {kind.status}.</p>\n"
        f"      <p><strong>When:</strong> {_marked(known.when)}.</p>\n"
        f"      <p><strong>What to do:</strong> {_marked(known.remedy)}.</p>\n"
        f"    </section>"
    )


def _marked(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", html.escape(text))
