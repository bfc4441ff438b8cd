"""Builds the ASGI application from settings and a sound checkpoint folder."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from model import Checkpoint
from model.backends.base import Backend
from model.backends.device import dtype_name
from model.backends.threads import yield_to_others
from model.loading import load
from service.api.openapi import DESCRIPTION, install_openapi
from service.api.routes import (
    attention,
    attributions,
    health,
    metrics,
    model,
    pages,
    predict,
)
from service.api.state import State
from service.errors import NOT_FOUND_DETAIL, MethodNotAllowedError, NotFoundError
from service.http.access import AllowedHosts, ApiKeys
from service.http.direct import DirectRoutes
from service.http.gate import Gate
from service.http.lifecycle import Lifecycle
from service.http.limits import RateLimit
from service.http.memory import MemoryWatch
from service.http.middleware import (
    CLIENT_LEFT,
    REQUEST_ID,
    TIMEOUT,
    ProblemMiddleware,
    RequestMiddleware,
)
from service.http.sending import SendingLimit
from service.inference.engine import Engine
from service.metrics import Metrics
from service.settings import Rate, Settings

ROUTERS: tuple[APIRouter, ...] = (
    predict.router,
    attention.router,
    attributions.router,
    model.router,
    health.router,
    metrics.router,
    pages.router,
)

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
) -> FastAPI:
    """Builds the application; the model loads when its lifespan begins.

    Args:
        settings: read once, at the start.
        checkpoint: the folder to serve, found sound.
        backend: where its network runs.
        api_keys: the keys that let a request in.
        lifecycle: shared with the server that drains; a new one if None.
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
    heavy = _routes(predict.router, attention.router, attributions.router)
    cors = partial(
        CORSMiddleware,
        allow_origins=settings.allowed_origins or (),
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type", REQUEST_ID, TIMEOUT],
        expose_headers=[REQUEST_ID, "Retry-After"],
    )
    memory = MemoryWatch(counted.memory_refused)
    gate = Gate(
        engine,
        lifecycle,
        counted,
        memory,
        api_keys=api_keys,
        routes=[(method, route.path) for route in heavy for method in route.methods or ()],
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
        requests=_limit(settings.rate_limit, "requests"),
        tokens=_limit(settings.token_quota, "tokens"),
    )
    for router in ROUTERS:
        app.include_router(router)
    app.add_exception_handler(HTTPException, partial(_refuse_routing, _methods()))
    # From the innermost to the outermost.
    app.add_middleware(DirectRoutes, routes=heavy)
    if settings.allowed_hosts:
        app.add_middleware(AllowedHosts, hosts=settings.allowed_hosts)
    app.add_middleware(
        ProblemMiddleware,
        lifecycle=lifecycle,
        metrics=counted,
        request_timeout=settings.request_timeout,
    )
    if settings.allowed_origins:
        app.add_middleware(cors)
    app.add_middleware(RequestMiddleware, lifecycle=lifecycle, metrics=counted)
    install_openapi(app, app.state.headlight.limits)
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


def _limit(rate: Rate | None, unit: str) -> RateLimit | None:
    return None if rate is None else RateLimit(rate, unit)


def _routes(*routers: APIRouter) -> list[APIRoute]:
    return [route for router in routers for route in router.routes if isinstance(route, APIRoute)]


def _methods() -> dict[str, list[str]]:
    """Maps every path to its methods, for the header `Allow`."""
    methods: defaultdict[str, set[str]] = defaultdict(set)
    for route in _routes(*ROUTERS):
        methods[route.path] |= route.methods or set()
    return {path: sorted(allowed) for path, allowed in methods.items()}


def _series() -> Iterator[tuple[str, str, set[int]]]:
    """Yields every path, its method and its possible statuses, for the metrics."""
    for route in _routes(*ROUTERS):
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
