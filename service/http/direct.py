"""A short way to the routes that carry the load.

Routing, contexts and exception handling of the frameworks cost several times what such a route
does itself, and the thread that pays for them is the one that all clients wait for. So a request
for one of these, by its exact method and path, is handed to its endpoint straight away. What the
endpoint raises is answered as everywhere, and every other request goes the long way.
"""

from collections.abc import Awaitable, Callable, Iterable

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import ServiceError


class DirectRoutes:
    """ASGI middleware; see the module.

    Args:
        app: what answers everything else.
        routes: whose endpoints take a request and nothing else.
        answer_problem: makes the answer of an error.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        routes: Iterable[APIRoute],
        answer_problem: Callable[[Request, ServiceError], Awaitable[Response]],
    ) -> None:
        self._app = app
        self._answer_problem = answer_problem
        self._routes = {
            (method, route.path): route for route in routes for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        route = self._routes.get((scope.get("method", ""), scope.get("path", "")))
        if route is None or scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        request = Request(scope, receive, send)
        try:
            response = await route.endpoint(request)
        except ServiceError as error:
            response = await self._answer_problem(request, error)
        await response(scope, receive, send)
