"""Explains each kind of problem, for the page that its `type` leads to.

The table is that of docs/reference/http.md, without its links. What stands in backticks is code.
"""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template

from service.errors import ALL_ERRORS, TYPE_PREFIX, ServiceError


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a kind of problem means.

    Args:
        when: it is answered.
        remedy: what whoever gets it can do.
    """

    when: str
    remedy: str


EXPLANATIONS: Mapping[str, Explanation] = {
    "malformed-json": Explanation(
        "the body is empty, is not UTF-8 JSON, is nested too deep, or is followed by "
        "something else",
        "send one JSON object",
    ),
    "unauthorized": Explanation(
        "keys are set and the request has no valid one; `detail` tells a wrong key from a "
        "missing one, and the answer has the header `WWW-Authenticate: Bearer`, with "
        '`error="invalid_token"` if a key was sent',
        "send `Authorization: Bearer KEY`",
    ),
    "cross-site": Explanation(
        "a page from elsewhere made a browser send `GET /attention`, `/attention/steps`, "
        "`/attributions` or `/importance`, or `infer` (`Sec-Fetch-Site`)",
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
        "`MAX_ATTENTION_WEIGHTS` numbers, or more than 20 MB of repeated words",
        "choose layers and heads, or shorten the text",
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
        "is blank or not valid Unicode; `X-Request-Timeout` is not a number of seconds; or "
        "the request takes longer than it has, even on an idle replica",
        "correct what `errors` lists, or send what `detail` says would fit",
    ),
    "text-too-long": Explanation(
        "`truncation` is `error` and the text does not fit, or it is `window` and the text takes "
        "more than `MAX_WINDOWS` windows; the text has more than `MAX_ITEM_SENTENCES` sentences, "
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
        "the queue has no room for the request, or the wait would be longer than the request "
        "has; large answers that clients have not read yet leave no room for this one; all "
        "connections are taken, or the memory nearly is",
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

_CODE = re.compile("`([^`]*)`")
_LEAD = "What a problem of this service means, and what to do. Names in capitals are settings."


def as_json(kind: type[ServiceError]) -> dict[str, object]:
    """One kind, for programs."""
    told = EXPLANATIONS[kind.type]
    return {
        "type": TYPE_PREFIX + kind.type,
        "title": kind.title,
        "status": kind.status,
        "when": told.when,
        "remedy": told.remedy,
    }


def as_text(kinds: Sequence[type[ServiceError]]) -> str:
    """Some kinds, for a terminal."""
    return "\n".join(
        f"{kind.type} ({kind.status}): {kind.title}\n"
        f"  when: {EXPLANATIONS[kind.type].when}\n"
        f"  what to do: {EXPLANATIONS[kind.type].remedy}\n"
        for kind in kinds
    )


def as_page(template: str, kinds: Sequence[type[ServiceError]], *, root: str, version: str) -> str:
    """Some kinds, as a page.

    Args:
        template: of the page.
        kinds: one, or all.
        root: from the page to the root of the service, `../` or nothing.
        version: of the files that the page loads.
    """
    title = kinds[0].title if len(kinds) == 1 else "Problems"
    return Template(template).substitute(
        title=html.escape(title),
        lead=html.escape(_LEAD),
        root=root,
        version=version,
        problems="\n".join(_section(kind, root) for kind in kinds),
    )


def _section(kind: type[ServiceError], root: str) -> str:
    told = EXPLANATIONS[kind.type]
    return (
        f'    <section id="{kind.type}">\n'
        f'      <h2><a href="{root}problems/{kind.type}">{kind.type}</a></h2>\n'
        f"      <p>{html.escape(kind.title)}. The status is {kind.status}.</p>\n"
        f"      <p><strong>When:</strong> {_marked(told.when)}.</p>\n"
        f"      <p><strong>What to do:</strong> {_marked(told.remedy)}.</p>\n"
        f"    </section>"
    )


def _marked(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", html.escape(text))
