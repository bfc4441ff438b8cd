"""Builds the ASGI application from settings and a sound checkpoint folder."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from model import Checkpoint
from model.backends.base import Backend
from model.backends.device import dtype_name
from model.backends.threads import yield_to_others
from model.loading import load
from service.api.compat import families
from service.api.compat.errors import error_teller
from service.api.compat.texts import TRUNCATED
from service.api.openapi import DESCRIPTION, install_openapi
from service.api.routes import (
    attention,
    attributions,
    health,
    metrics,
    model,
    pages,
    predict,
    problems,
    steps,
)
from service.api.state import State
from service.drift import AnswerCounts
from service.errors import NOT_FOUND_DETAIL, MethodNotAllowedError, NotFoundError, Refusal
from service.formats.tensors import HEADER
from service.http.access import AllowedHosts, ApiKeys
from service.http.direct import DirectApp, Layer, direct_places
from service.http.gate import Gate
from service.http.lifecycle import Lifecycle
from service.http.memory_watch import MemoryWatch
from service.http.middleware import (
    CLIENT_LEFT,
    REQUEST_ID,
    TIMEOUT,
    ProblemMiddleware,
    RequestMiddleware,
)
from service.http.rate_limit import RateLimit
from service.http.response_budget import SendingLimit
from service.inference.engine import Engine
from service.metrics import Metrics
from service.settings import Rate, Settings

OWN_ROUTERS: tuple[APIRouter, ...] = (
    predict.router,
    attention.router,
    steps.router,
    attributions.router,
    model.router,
    health.router,
    metrics.router,
    pages.router,
    problems.router,
)
# All that can be served; settings switch some off.
ROUTERS = (*OWN_ROUTERS, *families.ROUTERS.values())

# Threads for work that would block the event loop.
_ASIDE = 2
# They prepare large requests, and yield to the passes of small ones.
_ASIDE_NICENESS = 15


def create_app(
    settings: Settings,
    checkpoint: Checkpoint,
    backend: Backend,
    *,
    api_keys: ApiKeys,
    lifecycle: Lifecycle | None = None,
    tracing: Layer | None = None,
) -> FastAPI:
    """Builds the application; the model loads when its lifespan begins.

    Args:
        settings: read once, at the start.
        checkpoint: the folder to serve, found sound.
        backend: where its network runs.
        api_keys: the keys that let a request in.
        lifecycle: shared with the server that drains; a new one if None.
        tracing: makes spans of requests; None if nobody wants traces.
    """
    foreign = families.routers_of(settings.compat)
    routers = (*OWN_ROUTERS, *foreign)
    counted = Metrics(_series(routers))
    counted.expect_model(
        checkpoint.name, checkpoint.version, str(backend.device), dtype_name(backend.dtype)
    )
    counted.expect_answers(AnswerCounts(checkpoint))
    engine = Engine(
        partial(load, checkpoint, backend),
        backend,
        max_batch_tokens=settings.max_batch_tokens,
        max_queue_tokens=settings.max_queue_tokens,
        watchdog_seconds=settings.watchdog_seconds,
        metrics=counted,
    )
    lifecycle = lifecycle or Lifecycle()
    full = settings.request_timeout  # no admitted request waits longer
    counted.backlog_seconds.set_function(lambda: engine.backlog_seconds(full=full))
    counted.ready.set_function(lambda: float(engine.fault is None and not lifecycle.draining))
    app = DirectApp(
        title="Headlight",
        version=version("headlight"),
        description=DESCRIPTION,
        lifespan=partial(_lifespan, engine, lifecycle),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Whatever its variables say: it would send queries and messages of errors, which hold text.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    tells_error = error_teller(foreign)
    computing = [route for route in _routes(*foreign) if "POST" in (route.methods or ())]
    names = {"model": checkpoint.name, "version": checkpoint.version}
    places = partial(direct_places, names=names)
    own = _routes(predict.router, attention.router, steps.router, attributions.router)
    heavy = places([*own, *computing])
    # The first goes with requests too.
    foreign_headers = [HEADER, TRUNCATED] if foreign else []
    traced = ["traceparent", "tracestate"] if tracing is not None else []
    may_send = [*foreign_headers[:1], *traced]
    may_read = [*foreign_headers, *traced[:1]]
    cors = partial(
        CORSMiddleware,
        allow_origins=settings.allowed_origins or (),
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type", REQUEST_ID, TIMEOUT, *may_send],
        expose_headers=[REQUEST_ID, "Retry-After", *may_read],
    )
    memory = MemoryWatch(counted.memory_refused)
    counted.memory_used.set_function(lambda: memory.share)
    gate = Gate(
        engine,
        lifecycle,
        counted,
        memory,
        api_keys=api_keys,
        routes={(method, quote(path)): route.path for (method, path), route in heavy.items()},
        tells_error=frozenset((method, quote(path)) for method, path in places(computing)),
        seconds=settings.request_timeout,
        cors=cors(app) if settings.allowed_origins else None,
    )
    sending = SendingLimit(
        settings.max_sending_bytes, counted.sending_bytes, counted.sending_refused
    )
    app.state.headlight = State(
        settings,
        checkpoint,
        api_keys,
        engine,
        lifecycle,
        counted,
        gate,
        sending,
        memory,
        requests=_limit(settings.rate_limit, "requests", Refusal.RATE_LIMIT),
        tokens=_limit(settings.token_quota, "tokens", Refusal.QUOTA),
    )
    for router in routers:
        app.include_router(router)
    app.add_exception_handler(HTTPException, partial(_refuse_routing, _methods(routers)))
    # From the innermost to the outermost.
    layers: list[Layer] = []
    if settings.allowed_hosts:
        layers.append(partial(AllowedHosts, hosts=settings.allowed_hosts))
    layers.append(
        partial(
            ProblemMiddleware,
            lifecycle=lifecycle,
            metrics=counted,
            request_timeout=settings.request_timeout,
            tells_error=tells_error,
        )
    )
    if settings.allowed_origins:
        layers.append(cors)
    if tracing is not None:
        layers.append(tracing)
    layers.append(partial(RequestMiddleware, lifecycle=lifecycle, metrics=counted))
    app.surround(layers, direct=heavy)
    install_openapi(app, app.state.headlight.limits, families.schemas_of(settings.compat))
    families.describe_inputs(app.openapi(), settings.compat)
    return app


@asynccontextmanager
async def _lifespan(engine: Engine, lifecycle: Lifecycle, _app: FastAPI) -> AsyncIterator[None]:
    # Limits how many large bodies are parsed and long texts tokenized at once: each takes memory.
    aside = ThreadPoolExecutor(
        _ASIDE, "aside", initializer=yield_to_others, initargs=(_ASIDE_NICENESS,)
    )
    asyncio.get_running_loop().set_default_executor(aside)
    engine.start()
    try:
        yield
    finally:
        lifecycle.stuck = not await engine.close()


def _limit(rate: Rate | None, unit: str, refusal: Refusal) -> RateLimit | None:
    return None if rate is None else RateLimit(rate, unit, refusal=refusal)


def _routes(*routers: APIRouter) -> list[APIRoute]:
    return [route for router in routers for route in router.routes if isinstance(route, APIRoute)]


def _methods(routers: Iterable[APIRouter]) -> dict[str, list[str]]:
    """Maps every path to its methods, for the header `Allow`."""
    methods: defaultdict[str, set[str]] = defaultdict(set)
    for route in _routes(*routers):
        methods[route.path] |= route.methods or set()
    return {path: sorted(allowed) for path, allowed in methods.items()}


def _series(routers: Iterable[APIRouter]) -> Iterator[tuple[str, str, set[int]]]:
    """Yields every path, its method and its possible statuses, for the metrics."""
    for route in _routes(*routers):
        statuses = {200, CLIENT_LEFT, *(int(status) for status in route.responses)}
        for method in sorted(route.methods or ()):
            yield route.path, method, statuses


async def _refuse_routing(
    methods: dict[str, list[str]], request: Request, error: Exception
) -> None:
    """Turns what routing refuses into a problem.

    Raises:
        NotFoundError: nothing is at the path.
        MethodNotAllowedError: the path does not have the method.
    """
    assert isinstance(error, HTTPException)  # noqa: S101 - what the handler is registered for
    if error.status_code != 405:
        raise NotFoundError(NOT_FOUND_DETAIL)
    allowed = ", ".join(methods[request.scope["route"].path])
    raise MethodNotAllowedError(f"This path answers {allowed}.", headers={"Allow": allowed})
