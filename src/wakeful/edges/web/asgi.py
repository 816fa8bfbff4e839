"""The tick as an ASGI app: mounted in FastAPI or Starlette, or served by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from wakeful.edges.web.tick import Answer, Tick

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class TickASGI:
    """Answers `POST …/tick`."""

    def __init__(self, tick: Tick) -> None:
        self._tick = tick

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the server's start and end."""
        match scope["type"]:
            case "http":
                await _reply(send, await self._answer(scope))
            case "lifespan":
                await _live(receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1003})

    async def _answer(self, scope: Scope) -> Answer:
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._tick.refusal(scope["method"], scope["path"], headers.get(b"authorization", ""))
        return refusal or await self._tick.arun()


async def _reply(send: Send, answer: Answer) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in answer.headers]
    await send({"type": "http.response.start", "status": int(answer.status), "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
