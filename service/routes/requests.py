"""Lets a request in once, and carries it on as one context: read, compute, answer.

FastAPI's routing and layers add 0.1 ms to the 0.2 ms that a request takes outside the network
(`POST /predict`, two shared cores). So `DirectApp` finds the busiest endpoints without them, and
`answers` calls an endpoint itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Annotated, Any, Literal, TypeVar, cast

import orjson
from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from model import Checkpoint
from service.errors import (
    NOT_FOUND_DETAIL,
    CrossSiteError,
    NotFoundError,
    ServiceError,
    TooManyWeightsError,
)
from service.formats.json import JSON
from service.formats.size_estimates import Size
from service.http.access import (
    LARGE_SHARE,
    ApiKeys,
    Gate,
    MemoryWatch,
    RateLimit,
    require_client,
)
from service.http.middleware import LIMITS, Layer, Lifecycle, deadline_of, seconds_of
from service.http.negotiation import negotiate
from service.http.transport import SENDER, SMALL_BYTES, ClientTransport, Reservation, ResponseBudget
from service.metrics import Metrics
from service.queue.engine import Engine
from service.queue.preparing import Preparer, Steps, one_step
from service.queue.scheduler import ANYONE, ClientId
from service.routes.bodies import Schema, most_values, parse_json, receive_json, validate
from service.settings import Access, Settings

Answer = TypeVar("Answer")
Checked = TypeVar("Checked")
Result = TypeVar("Result")
Wanted = TypeVar("Wanted")
Endpoint = Callable[[Request], Awaitable[Response]]

# Values of `Sec-Fetch-Site` (W3C Fetch Metadata) of a page that is not the service's own.
_ELSEWHERE = frozenset({"cross-site", "same-site"})
# What takes a millisecond at most runs on the event loop: so many bytes of JSON are parsed in it.
_INLINE_COST = 16_384
#: how many times as long a character of a text takes, if it is encoded
WITHOUT_TOKENS, WITH_TOKENS = 8, 16
# A step of one word of so many characters takes some 20 ms, and of 2 MB more than a second.
_SMALL_CHARACTERS = 32_768
# Refused text costs a token for so many characters.
_CHARACTERS_A_TOKEN = 4
#: in the scope of a request whose body was read: the schema that it was read by
SCHEMA = "headlight.schema"
_ANY_FORM: tuple[list[str], ...] = ([], ["*/*"])


@dataclass(frozen=True, slots=True)
class State:
    """The parts of a running service; schemas look up in `limits` what a request may name."""

    settings: Settings
    checkpoint: Checkpoint
    limits: dict[str, object]
    api_keys: ApiKeys
    engine: Engine
    lifecycle: Lifecycle
    metrics: Metrics
    gate: Gate
    budget: ResponseBudget
    memory: MemoryWatch
    preparer: Preparer
    preparer_of_large: Preparer
    requests: RateLimit | None
    tokens: RateLimit | None


def request_limits(settings: Settings, checkpoint: Checkpoint) -> dict[str, object]:
    """Returns what a request may name, as the schemas look it up."""
    config = checkpoint.config
    return {
        "max_sentences": settings.max_sentences,
        "max_length": checkpoint.manifest.max_length,
        "labels": config.labels,
        "layers": config.num_layers,
        "heads": config.num_heads,
    }


def state_of(request: Request) -> State:
    """Returns the parts of the service that answers a request."""
    return cast("State", request.app.state.headlight)


@dataclass(slots=True)
class RequestContext:
    """A request that was let in; `form` is the media type of its answer."""

    request: Request
    state: State
    client: ClientId
    form: str = JSON

    @property
    def scope(self) -> Scope:
        """The ASGI scope of the request."""
        return self.request.scope

    @property
    def deadline(self) -> float:
        """Until when the request can be answered, by the event loop's clock."""
        return deadline_of(self.request.scope)

    @property
    def source(self) -> Literal["body", "query"]:
        """The part of the request that says what it wants: the first word of every `loc`."""
        return "query" if self.request.method == "GET" else "body"

    def reserve(self, size: Size, advice: str) -> Reservation | None:
        """Reserves a part of the response budget for an answer.

        Raises:
            TooManyWeightsError: it is larger than the whole budget; `advice` says what to do.
            OverloadedError: the budget or the memory is used up.
        """
        if size.making > self.state.budget.most:
            raise TooManyWeightsError(
                f"The answer would take up to {size.making} bytes while it is made; the limit is "
                f"{self.state.budget.most}: {advice}."
            )
        if size.answer > SMALL_BYTES:
            self.state.memory.check(LARGE_SHARE)
        return self.state.budget.reserve(self.scope, answer=size.answer, making=size.making)

    async def read_json(self, check: Callable[[object], Checked]) -> Checked:
        """Reads the JSON body of the request; `check` makes the result of it, maybe on a thread.

        Raises:
            PayloadTooLargeError: the body is too large, by its declared length or by its bytes.
            UnsupportedMediaTypeError: it is not plain JSON.
            MalformedJsonError: it is not UTF-8 JSON.
            InvalidRequestError: it holds too many values, an object gives a field twice, or
                `check` refuses the value.
        """
        settings = self.state.settings
        content = await receive_json(self.request, settings.max_body_bytes)
        most = most_values(settings.max_sentences)
        return await self.parse(content, lambda: check(parse_json(content, most)))

    async def parse(self, content: bytes, parse: Callable[[], Checked]) -> Checked:
        """Parses a body or a query; raises as `prepare`."""
        return await self.prepare(one_step(parse), [content], cost=1)

    async def prepare(
        self, work: Steps[Result], given: Sequence[object], *, cost: int = WITH_TOKENS
    ) -> Result:
        """Runs work before admission, on threads unless all that it reads is small.

        Args:
            given: what it reads; only texts and bytes count.
            cost: what a character costs, where a byte of JSON that is parsed costs 1.

        Raises:
            RateLimitedError: the work refused the texts, and the client has used up its tokens.
            ServiceError: whatever the work raises.
        """
        lengths = _lengths(given)
        is_large = sum(lengths) > _SMALL_CHARACTERS
        preparer = self.state.preparer_of_large if is_large else self.state.preparer
        inline = sum(lengths) * cost <= _INLINE_COST
        try:
            return await preparer.run(self.client.client, work, inline=inline)
        except ServiceError as error:
            if error.status < 500:
                self.pay(given)
            raise

    def pay(self, refused: Iterable[object]) -> None:
        """Lets the client pay for refused texts: about as many tokens as they may have."""
        self.client.spend(sum(1 + length // _CHARACTERS_A_TOKEN for length in _lengths(refused)))


def _lengths(given: Iterable[object]) -> list[int]:
    return [len(each) for each in given if isinstance(each, str | bytes)]


Reader = Callable[[RequestContext], Awaitable[Wanted]]


def admit(request: Request) -> RequestContext:
    """Lets in a request that computes, before its body or query is read.

    Raises:
        CrossSiteError: another site's page made a browser send it with GET.
        UnauthorizedError: keys are set and the request has no valid one.
        OverloadedError: the gate has not seen it, and refuses it.
        RateLimitedError: its client has sent too many.
    """
    state: State = request.app.state.headlight
    scope = request.scope
    if request.method == "GET":
        require_same_site(request)
    client, payer = _identify(state, scope)
    state.gate.check(scope, scope["route"].path)
    if state.requests is not None:
        state.requests.spend(payer)
    route, seconds = scope["route"].path, seconds_of(scope)
    spend = ANYONE.spend if state.tokens is None else partial(state.tokens.spend, payer)
    return RequestContext(request, state, ClientId(client, route, spend, seconds))


def _identify(state: State, scope: Scope) -> tuple[Hashable, Hashable]:
    """Returns the client and who pays for it, whose limits its answers show."""
    client = require_client(state.api_keys, scope)
    # All connections of an address share its limits.
    payer = client[0] if isinstance(client, tuple) else client
    limits = (state.requests, state.tokens)
    scope[LIMITS] = [partial(each.items, payer) for each in limits if each is not None]
    return client, payer


#: what an endpoint that `answers` calls declares as its first parameter
Context = Annotated[RequestContext, Depends(admit)]


def answers(
    read: Reader[Wanted],
    *forms: str,
    same_site: bool = False,
    others: Mapping[type, Callable[[RequestContext, Any], Awaitable[Response]]] = {},
) -> Callable[[Callable[[RequestContext, Wanted], Awaitable[Response]]], Endpoint]:
    """Makes an endpoint of a function that answers what `read` reads of an admitted request.

    `forms` are media types, the preferred one first; JSON if none is given. With `same_site`, POST,
    too, is refused to pages of other sites. `others` answer what is read by their schemas.
    """
    offered = forms or (JSON,)

    def decorate(answer: Callable[[RequestContext, Wanted], Awaitable[Response]]) -> Endpoint:
        @wraps(answer)
        async def endpoint(request: Request) -> Response:
            if same_site:
                require_same_site(request)
            context = admit(request)
            context.form = choose_form(request, *offered)
            wanted = await read(context)
            answer_it = others.get(type(wanted), answer)
            return await unless_gone(request, answer_it(context, wanted))

        return endpoint

    return decorate


class DirectRoute(APIRoute):
    """A route whose endpoint takes the request; FastAPI solves no dependencies for it."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Returns the endpoint itself."""
        return self.endpoint


def direct_routes(
    routes: Iterable[APIRoute], names: Mapping[str, str]
) -> dict[tuple[str, str], APIRoute]:
    """Maps method and path to the routes whose parameters are all in `names`, filled in."""
    return {
        (method, route.path.format(**names)): route
        for route in routes
        if route.param_convertors.keys() <= names.keys()
        for method in route.methods or ()
    }


class DirectApp(FastAPI):
    """An application with a short way to some of its routes."""

    #: writes what describes the interface
    describe: Callable[[], bytes]
    _direct: Mapping[tuple[str, str], APIRoute] = {}
    _document: asyncio.Future[bytes] | None = None
    _short_way: ASGIApp

    def surround(
        self, layers: Iterable[Layer], *, direct: Mapping[tuple[str, str], APIRoute]
    ) -> None:
        """Puts layers, the innermost first, round the application and the way to the direct routes.

        Their endpoints take only a request, without path parameters.
        """
        self._direct, self._short_way = direct, self._call_endpoint
        for layer in layers:
            self.add_middleware(layer)
            self._short_way = layer(self._short_way)

    async def _call_endpoint(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = scope["route"] = self._direct[scope["method"], scope["path"]]
        answer = await route.endpoint(Request(scope, receive, send))
        await answer(scope, receive, send)  # a response is an ASGI app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if (scope.get("method", ""), scope.get("path", "")) in self._direct:
            scope["app"] = self
            await self._short_way(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def document(self) -> bytes:
        """Returns what describes the interface; it is written once, on a thread."""
        if self._document is None:
            self._document = asyncio.ensure_future(asyncio.to_thread(self.describe))
        return await asyncio.shield(self._document)


def json_response(content: object, headers: Mapping[str, str] | None = None) -> Response:
    """Makes a response of anything that orjson writes, dataclasses included."""
    return Response(orjson.dumps(content), headers=headers, media_type=JSON)


def make_router(**options: Any) -> APIRouter:  # noqa: ANN401 - those of FastAPI
    """Makes a router of endpoints that take the request only."""
    return APIRouter(
        route_class=DirectRoute, generate_unique_id_function=lambda route: route.name, **options
    )


def answer_get(router: APIRouter, path: str, **operation: Any) -> Callable[[Endpoint], Endpoint]:  # noqa: ANN401
    """Registers an endpoint for GET, and for HEAD, which `/openapi.json` does not list."""

    def register(endpoint: Endpoint) -> Endpoint:
        router.head(path, include_in_schema=False)(endpoint)
        return router.get(path, **operation)(endpoint)

    return register


def from_body(schema: type[Schema], **others: type[BaseModel]) -> Reader[Any]:
    """Makes a reader of JSON bodies.

    Args:
        schema: of a body, unless it has a field that names another.
        others: schemas by the field that a body of them has; the first that fits counts. The scope
            of the request holds the one that was chosen.
    """
    several = "sentences" in others

    async def read(context: RequestContext) -> BaseModel:
        def check(value: object) -> BaseModel:
            chosen: type[BaseModel] = schema
            if isinstance(value, dict):
                chosen = next((others[name] for name in others if name in value), schema)
            context.scope[SCHEMA] = chosen
            limits = context.state.limits
            return validate(chosen, value, source="body", context=limits, several=several)

        return await context.read_json(check)

    return read


def require_access(request: Request, *parts: Access) -> None:
    """Lets in a request as the settings of its route say; the most open of them counts.

    Raises:
        NotFoundError: all are switched off.
        UnauthorizedError: a key is needed and the request has no valid one.
    """
    if "open" in parts:
        return
    if "key" not in parts:
        raise NotFoundError(NOT_FOUND_DETAIL)
    _identify(state_of(request), request.scope)


def require_key(request: Request) -> None:
    """Lets in a request for JSON that describes the model; raises as the two below."""
    require_access(request, "key")
    choose_form(request, JSON)


def choose_form(request: Request, *media_types: str) -> str:
    """Chooses a media type by `Accept`, the preferred one first; raises NotAcceptableError."""
    accepted = request.headers.getlist("accept")
    return media_types[0] if accepted in _ANY_FORM else negotiate(accepted, media_types)


def require_same_site(request: Request) -> None:
    """Refuses a request that another site's page can make a browser send without asking first.

    Such requests come from markup, and from bodies without a type. Browsers name the site in
    `Sec-Fetch-Site`. A page that may read the answers (CORS) also names its origin.

    Raises:
        CrossSiteError: another site's page made a browser send it.
    """
    if request.headers.get("sec-fetch-site") not in _ELSEWHERE:
        return
    allowed = state_of(request).settings.allowed_origins or ()
    if "origin" in request.headers and {"*", request.headers["origin"]} & set(allowed):
        return
    other = "send it with POST, or " if request.method == "GET" else ""
    raise CrossSiteError(
        f"A page of another origin sent this: {other}name its origin in HEADLIGHT_ALLOWED_ORIGINS."
    )


async def unless_gone(request: Request, work: Awaitable[Answer]) -> Answer:
    """Waits for work; cancels it and raises ClientDisconnect if the client leaves first."""
    sender: ClientTransport | None = request.scope.get(SENDER)
    task = asyncio.current_task()
    if sender is None or task is None:
        return await work
    # Tasks for the work and for the end of the connection would cost more than a small request.
    cancelled_before = task.cancelling()
    is_gone = False

    def leave() -> None:
        nonlocal is_gone
        is_gone = True
        task.cancel()

    sender.call_when_lost(leave)
    try:
        return await work
    except asyncio.CancelledError:
        # If a deadline, for example, cancels the task too, it must find the task cancelled.
        if is_gone and task.uncancel() <= cancelled_before:
            raise ClientDisconnect from None
        raise
    finally:
        sender.call_when_lost(None)
