"""Builds the ASGI application from settings and a checked checkpoint folder."""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from model import Checkpoint
from model.backends.base import Backend
from model.cli.arguments import project_version
from model.loading import load_on
from service.compat import classify, huggingface, mlflow, openinference
from service.compat.base import TRUNCATED, repeats_detail
from service.compat.tensors import HEADER
from service.errors import NOT_FOUND_DETAIL, MethodNotAllowedError, NotFoundError, Refusal
from service.formats.size_estimates import MOST_BYTES_PER_WEIGHT
from service.http.access import AllowedHosts, ApiKeys, Gate, MemoryWatch, RateLimit
from service.http.middleware import (
    LIMIT_HEADERS,
    REQUEST_ID,
    TIMEOUT,
    Layer,
    Lifecycle,
    ProblemMiddleware,
    RequestMiddleware,
)
from service.http.transport import ResponseBudget
from service.logs import lost_lines
from service.metrics import AnswerCounts, Metrics
from service.page import problems, routes
from service.queue.engine import Engine
from service.queue.preparing import Preparer
from service.routes import attention, attributions, health, model, predict
from service.routes.openapi import DESCRIPTION, write_openapi
from service.routes.requests import DirectApp, State, direct_routes, request_limits
from service.settings import Family, Rate, Settings

_EXPLAINING = (attention.router, attributions.router)
_OTHERS = (model.router, health.router, routes.router, problems.router)
# One for each family of other systems' clients, in the order of the settings.
COMPAT_ROUTERS: dict[Family, APIRouter] = {
    "huggingface": huggingface.router,
    "openinference": openinference.router,
    "classify": classify.router,
    "mlflow": mlflow.router,
}
# All that can be served; settings switch some off.
ROUTERS = (predict.router, *_EXPLAINING, *_OTHERS, *COMPAT_ROUTERS.values())

# Bytes of large answers that are made or wait to be sent; one of the most weights always fits.
SENDING_BYTES = 100_000_000
# A longer forward pass is held to be stuck.
WATCHDOG_SECONDS = 30.0


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
        checkpoint: the folder to serve, already checked.
        lifecycle: shared with the server that drains; a new one if None.
        tracing: makes spans of requests; None without traces.
    """
    lifecycle = lifecycle or Lifecycle()
    compat = [each for family, each in COMPAT_ROUTERS.items() if family in settings.compat]
    either = huggingface.predict_router if "huggingface" in settings.compat else predict.router
    own = (either, *_EXPLAINING)
    routers = (*own, *_OTHERS, *compat)
    counted = Metrics(_series(own), AnswerCounts(checkpoint))
    counted.model.labels(checkpoint.name, checkpoint.version, backend.device, backend.dtype)
    counted.log_lines_lost.set_function(lost_lines)
    engine = Engine(
        partial(load_on, checkpoint, backend),
        backend,
        max_batch_tokens=settings.max_batch_tokens,
        max_queue_tokens=settings.max_queue_tokens,
        watchdog_seconds=WATCHDOG_SECONDS,
        metrics=counted,
        preload_gradients=settings.preload == "gradients",
    )
    # Each large request takes memory.
    preparer, preparer_of_large = Preparer(), Preparer(threads=2)
    app = DirectApp(
        title="Headlight",
        version=project_version(),
        description=DESCRIPTION,
        lifespan=partial(_lifespan, engine, (preparer, preparer_of_large), lifecycle),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Whatever its variables say: it would send queries and messages of errors, which hold text.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    cors = _cors(settings, has_compat=bool(compat), is_traced=tracing is not None)
    computing = [route for route in _routes(*compat) if "POST" in (route.methods or ())]
    direct = partial(direct_routes, names={"model": checkpoint.name, "version": checkpoint.version})
    heavy = direct([*_routes(*own), *computing])
    memory = MemoryWatch()
    gate = Gate(
        engine.check_room,
        lifecycle,
        counted,
        memory,
        api_keys=api_keys,
        routes={target: route.path for target, route in heavy.items()},
        with_error=direct(computing).keys(),
        seconds=settings.request_timeout,
        cors=None if cors is None else cors(app),
    )
    state = State(
        settings,
        checkpoint,
        request_limits(settings, checkpoint),
        api_keys,
        engine,
        lifecycle,
        counted,
        gate,
        ResponseBudget(
            max(SENDING_BYTES, settings.max_attention_weights * MOST_BYTES_PER_WEIGHT),
            counted.sending_bytes,
        ),
        memory,
        preparer,
        preparer_of_large,
        requests=_limit(settings.rate_limit, "requests", Refusal.RATE_LIMIT),
        tokens=_limit(settings.token_quota, "tokens", Refusal.QUOTA),
    )
    app.state.headlight = state
    _show_live(state)
    for router in routers:
        app.include_router(router)
    app.add_exception_handler(HTTPException, partial(_reject_routing, _methods(routers)))
    problem_layer = partial(
        ProblemMiddleware,
        lifecycle=lifecycle,
        metrics=counted,
        request_timeout=settings.request_timeout,
        with_error=repeats_detail(compat),
    )
    hosts = settings.allowed_hosts
    # From the innermost to the outermost.
    layers: list[Layer | None] = [
        partial(AllowedHosts, hosts=hosts) if hosts else None,
        problem_layer,
        cors,
        tracing,
        partial(RequestMiddleware, lifecycle=lifecycle, metrics=counted),
    ]
    app.surround([layer for layer in layers if layer is not None], direct=heavy)
    app.describe = partial(write_openapi, app, state.limits)
    return app


def _cors(
    settings: Settings, *, has_compat: bool, is_traced: bool
) -> Callable[[ASGIApp], CORSMiddleware] | None:
    """Lets pages of allowed origins send requests and read answers; None if there are none."""
    if not settings.allowed_origins:
        return None
    # The first of them goes with requests too.
    compat = [HEADER, TRUNCATED] if has_compat else []
    traced = ["traceparent", "tracestate"] if is_traced else []
    return partial(
        CORSMiddleware,
        allow_origins=settings.allowed_origins,
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type", REQUEST_ID, TIMEOUT, *compat[:1], *traced],
        expose_headers=[REQUEST_ID, "Retry-After", *LIMIT_HEADERS, *compat, *traced[:1]],
    )


def _show_live(state: State) -> None:
    """Lets metrics read what changes by itself."""
    engine, lifecycle, counted = state.engine, state.lifecycle, state.metrics
    full = state.settings.request_timeout  # no admitted request waits longer
    counted.backlog_seconds.set_function(lambda: engine.backlog_seconds(full=full))
    counted.ready.set_function(lambda: float(engine.not_ready is None and not lifecycle.draining))
    counted.memory_used.set_function(lambda: state.memory.share)


@asynccontextmanager
async def _lifespan(
    engine: Engine, preparers: Iterable[Preparer], lifecycle: Lifecycle, _app: FastAPI
) -> AsyncIterator[None]:
    engine.start()
    try:
        yield
    finally:
        for each in preparers:
            each.close()
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
    """Yields paths, methods and statuses whose counters rules and alerts read from the start."""
    for route in _routes(*routers):
        failures = {status for status in map(int, route.responses) if status >= 500} - {501}
        for method in sorted(route.methods or ()):
            yield route.path, method, failures | ({200} if method == "POST" else set())


async def _reject_routing(
    methods: dict[str, list[str]], request: Request, error: Exception
) -> None:
    """Raises NotFoundError or MethodNotAllowedError for a request that fits no route."""
    assert isinstance(error, HTTPException)  # noqa: S101 - what the handler is registered for
    if error.status_code != 405:
        raise NotFoundError(NOT_FOUND_DETAIL)
    allowed = ", ".join(methods[request.scope["route"].path])
    advice = ""
    if "access-control-request-method" in request.headers:
        advice = " Name the origin of your page in HEADLIGHT_ALLOWED_ORIGINS."
    raise MethodNotAllowedError(f"This path answers {allowed}.{advice}", headers={"Allow": allowed})
