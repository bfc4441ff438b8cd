"""From an application, to one that hears when the client that it answers has gone.

uvicorn drops what is sent to nobody, so that a request whose client has left ends as if it had
been answered.
"""

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


async def answer_unless_gone(
    cycle: RequestResponseCycle, app: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    """Runs an application for one request.

    Args:
        cycle: uvicorn's part of the request.
        app: what answers; its `send` raises `ClientDisconnect` where nobody takes the answer.
        scope: of the request.
        receive: of the request.
        send: of the request.
    """

    async def send_unless_gone(message: Message) -> None:
        await send(message)
        if cycle.disconnected and not cycle.response_complete:
            raise ClientDisconnect

    await app(scope, receive, send_unless_gone)
