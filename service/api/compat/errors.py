"""Decides whose problems also have the member `error`, which clients of other systems show."""

from collections.abc import Callable, Iterable

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import Scope

_NOTED = "headlight.tells_error"


def tell_error(request: Request) -> None:
    """Notes that a request has the form of another system, though its path is our own."""
    request.scope[_NOTED] = True


def error_teller(routers: Iterable[APIRouter]) -> Callable[[Scope], bool]:
    """Makes the judge of requests whose problems tell `error`.

    It also knows requests that reach no route: of another method, or below a path such as `/v1`
    that only other systems have. The path `/` is a page too, so there the method counts.

    Args:
        routers: the paths of other systems that are served.
    """
    routes = [each for router in routers for each in router.routes if isinstance(each, APIRoute)]
    at_root = {method for route in routes if route.path == "/" for method in route.methods or ()}
    parts = [route.path.split("/") for route in routes if route.path != "/"]
    alone = {part[1] for part in parts if len(part) == 2}
    above = {part[1] for part in parts if len(part) > 2}

    def tells(scope: Scope) -> bool:
        first, *below = scope["path"].split("/")[1:] or [""]
        if not first and not below:
            return scope["method"] in at_root or _NOTED in scope
        return first in above or (first in alone and not below) or _NOTED in scope

    return tells
