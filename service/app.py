"""The application: from settings and a sound checkpoint folder to an ASGI app."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from model import Checkpoint
from model.backends.base import Backend
from model.backends.device import dtype_name
from model.loading import load
from service.api.document import install_openapi
from service.api.openapi import DESCRIPTION
from service.api.routes import (
    attention,
    attributions,
    health,
    importance,
    metrics,
    model,
    pages,
    predict,
)
from service.api.state import State
from service.errors import (
    NOT_FOUND_DETAIL,
    MethodNotAllowedError,
    NotFoundError,
    ServiceError,
)
from service.http.api_keys import ApiKeys
from service.http.deadline import HEADER as TIMEOUT
from service.http.direct import DirectRoutes
from service.http.gate import Gate
from service.http.hosts import AllowedHosts, read_hosts, read_origins
from service.http.lifecycle import Lifecycle
from service.http.middleware import CLIENT_LEFT, REQUEST_ID, RequestMiddleware
from service.http.origins import Origins
from service.inference.engine import Engine
from service.metrics import Metrics
from service.settings import Settings

ROUTERS: tuple[APIRouter, ...] = (
    predict.router,
    attention.router,
    attributions.router,
    importance.router,
    model.router,
    health.router,
    metrics.router,
    pages.router,
)

# Threads for what would hold the event loop up.
_ASIDE = 2
# Headers of answers that pages from elsewhere may read.
_EXPOSED = (REQUEST_ID, "Retry-After")


def create_app(
    settings: Settings,
    checkpoint: Checkpoint,
    backend: Backend,
    *,
    api_keys: ApiKeys,
    lifecycle: Lifecycle | None = None,
) -> FastAPI:
    """Builds the application; the model loads when its lifespan begins.

    Args:
        settings: read once, at the start.
        checkpoint: the folder to serve, found sound.
        backend: where its network runs.
        api_keys: who may come in.
        lifecycle: shared with the server that drains; one of its own if None.
    """
    counted = Metrics(_series())
    counted.expect_model(
        checkpoint.name, checkpoint.version, str(backend.device), dtype_name(backend.dtype)
    )
    engine = Engine(
        partial(load, checkpoint, backend),
        backend,
        max_batch_tokens=settings.max_batch_tokens,
        max_queue_tokens=settings.max_queue_tokens,
        watchdog_seconds=settings.watchdog_seconds,
        metrics=counted,
    )
    lifecycle = lifecycle or Lifecycle()
    counted.ready.set_function(lambda: float(engine.fault is None and not lifecycle.draining))
    app = FastAPI(
        title="Headlight",
        version=version("headlight"),
        description=DESCRIPTION,
        lifespan=partial(_lifespan, engine, lifecycle),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    heavy = _routes(predict.router, attention.router, attributions.router, importance.router)
    allowed = read_origins(settings.allowed_origins) if settings.allowed_origins else []
    origins = Origins(allowed, exposed=_EXPOSED)
    gate = Gate(
        engine,
        lifecycle,
        counted,
        routes=[(method, route.path) for route in heavy for method in route.methods or ()],
        seconds=settings.request_timeout,
        origins=origins,
    )
    app.state.headlight = State(settings, checkpoint, api_keys, engine, lifecycle, counted, gate)
    for router in ROUTERS:
        app.include_router(router)
    app.add_exception_handler(ServiceError, _answer_problem)
    app.add_exception_handler(HTTPException, partial(_answer_routing, _methods()))
    app.add_middleware(DirectRoutes, routes=heavy, answer_problem=_problem)
    _guard(app, settings, allowed)
    app.add_middleware(
        RequestMiddleware,
        lifecycle=lifecycle,
        metrics=counted,
        request_timeout=settings.request_timeout,
        origins=origins,
    )
    install_openapi(app, settings, checkpoint.config.labels)
    return app


def _guard(app: FastAPI, settings: Settings, origins: Sequence[str]) -> None:
    """Adds what keeps out requests that are not meant for this service, if it is asked for."""
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", REQUEST_ID, TIMEOUT],
            expose_headers=_EXPOSED,
        )
    if settings.allowed_hosts is not None:
        hosts = read_hosts(settings.allowed_hosts)
        app.add_middleware(AllowedHosts, hosts=hosts, answer_problem=_problem)


@asynccontextmanager
async def _lifespan(engine: Engine, lifecycle: Lifecycle, _app: FastAPI) -> AsyncIterator[None]:
    # Large bodies are parsed, and long texts tokenized, so many at a time: each takes memory.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_ASIDE, "aside"))
    engine.start()
    try:
        yield
    finally:
        lifecycle.stuck = not await engine.close()


def _routes(*routers: APIRouter) -> list[APIRoute]:
    return [route for router in routers for route in router.routes if isinstance(route, APIRoute)]


def _methods() -> dict[str, list[str]]:
    """Every path with its methods, for the header `Allow`."""
    methods: defaultdict[str, set[str]] = defaultdict(set)
    for route in _routes(*ROUTERS):
        methods[route.path] |= route.methods or set()
    return {path: sorted(allowed) for path, allowed in methods.items()}


def _series() -> Iterator[tuple[str, str, set[int]]]:
    """Every path, method and status that a request can have, for the metrics."""
    for route in _routes(*ROUTERS):
        statuses = {200, CLIENT_LEFT, *(int(status) for status in route.responses)}
        for method in sorted(route.methods or ()):
            yield route.path, method, statuses


async def _answer_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)  # noqa: S101 - what the handler is registered for
    return await _problem(request, error)


async def _problem(request: Request, error: ServiceError) -> Response:
    request.app.state.headlight.metrics.problems.labels(error.type).inc()
    return error.response()


async def _answer_routing(
    methods: dict[str, list[str]], request: Request, error: Exception
) -> Response:
    """What routing refuses: an unknown path, or a method that a path does not have."""
    assert isinstance(error, HTTPException)  # noqa: S101 - what the handler is registered for
    if error.status_code == 405:
        allowed = ", ".join(methods[request.scope["route"].path])
        problem: ServiceError = MethodNotAllowedError(
            f"This path answers {allowed}.", headers={"Allow": allowed}
        )
    else:
        problem = NotFoundError(NOT_FOUND_DETAIL)
    return await _problem(request, problem)
