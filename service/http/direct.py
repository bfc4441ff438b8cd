"""Hands requests for the busiest routes straight to their endpoints.

Routing, contexts and error handling of the frameworks cost several times what such a route does
itself, on the one thread that all clients wait for. An exact method and path takes this short way;
every other request takes the frameworks' own.
"""

from collections.abc import Iterable

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send


class DirectRoutes:
    """ASGI middleware that calls the endpoints of some routes; see the module.

    Args:
        app: what answers everything else.
        routes: whose endpoints take a request and nothing else.
    """

    def __init__(self, app: ASGIApp, *, routes: Iterable[APIRoute]) -> None:
        self._app = app
        self._routes = {
            (method, route.path): route for route in routes for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        app = self._app
        if route := self._routes.get((scope.get("method", ""), scope.get("path", ""))):
            scope["route"] = route
            app = await route.endpoint(Request(scope, receive, send))  # a response is an ASGI app
        await app(scope, receive, send)
