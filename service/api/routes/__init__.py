"""Registers the routes: each says what it needs, calls one function, and returns its answer."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

Endpoint = Callable[..., Awaitable[Response]]


def answer_get(router: APIRouter, path: str, **operation: Any) -> Callable[[Endpoint], Endpoint]:  # noqa: ANN401
    """Registers an endpoint for GET, and for HEAD, which the interface does not describe.

    Args:
        router: takes both routes.
        path: of both.
        operation: what `router.get` takes, `responses` among it.
    """

    def register(endpoint: Endpoint) -> Endpoint:
        head = {"include_in_schema": False, "responses": operation["responses"]}
        router.head(path, **head)(endpoint)
        return router.get(path, **operation)(endpoint)

    return register
