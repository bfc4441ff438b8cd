"""Hands requests for the busiest routes straight to their endpoints.

Routing, contexts and error handling of FastAPI and Starlette take several times as long as a
prediction of one sentence, on the one thread that all clients wait for. A request with an exact
method and path skips them. Every request passes through the same layers of the service.
"""

from collections.abc import Callable, Iterable, Mapping

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

Layer = Callable[[ASGIApp], ASGIApp]


def direct_routes(
    routes: Iterable[APIRoute], names: Mapping[str, str]
) -> dict[tuple[str, str], APIRoute]:
    """Maps each method and path to its route.

    Args:
        routes: those whose paths have other parameters than `names` are left out.
        names: the only valid value of each parameter of a path.
    """
    return {
        (method, route.path.format(**names)): route
        for route in routes
        if route.param_convertors.keys() <= names.keys()
        for method in route.methods or ()
    }


class DirectApp(FastAPI):
    """An application with a short way to some of its routes; see the module."""

    _direct: frozenset[tuple[str, str]] = frozenset()
    _short_way: ASGIApp

    def surround(
        self, layers: Iterable[Layer], *, direct: Mapping[tuple[str, str], APIRoute]
    ) -> None:
        """Puts layers round the application, and round the direct way to some routes.

        Args:
            layers: from the innermost to the outermost.
            direct: method and path of routes whose endpoints take only a request. It has no path
                parameters.
        """
        routes = dict(direct)

        async def call_endpoint(scope: Scope, receive: Receive, send: Send) -> None:
            route = routes[scope["method"], scope["path"]]
            scope["route"] = route
            answer = await route.endpoint(Request(scope, receive, send))
            await answer(scope, receive, send)  # a response is an ASGI app

        self._direct = frozenset(routes)
        self._short_way = call_endpoint
        for layer in layers:
            self.add_middleware(layer)
            self._short_way = layer(self._short_way)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if (scope.get("method", ""), scope.get("path", "")) in self._direct:
            scope["app"] = self
            await self._short_way(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)
