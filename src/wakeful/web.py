"""For web processes: an endpoint that runs what is due, and a worker that lives as long as the server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from wakeful.app import Wakeful
from wakeful.edges.web.asgi import TickASGI
from wakeful.edges.web.beside import working
from wakeful.edges.web.tick import Tick
from wakeful.edges.web.wsgi import TickView, TickWSGI

__all__ = ["lifespan", "tick_asgi", "tick_view", "tick_wsgi", "working"]

POST = ("POST",)


def tick_asgi(
    app: Wakeful, *, token: str | None = None, limit: int | None = None, methods: Collection[str] = POST
) -> TickASGI:
    """An ASGI app that runs at most `limit` due jobs at `POST …/tick`: `web.mount("/api/jobs", tick_asgi(app))`.

    Without `token` and `limit`, WAKEFUL_TICK_TOKEN and WAKEFUL_TICK_LIMIT say. Without any token all are refused.
    """
    return TickASGI(Tick(app, token, limit, methods))


def tick_wsgi(
    app: Wakeful, *, token: str | None = None, limit: int | None = None, methods: Collection[str] = POST
) -> TickWSGI:
    """As `tick_asgi`, for WSGI."""
    return TickWSGI(Tick(app, token, limit, methods))


def tick_view(
    app: Wakeful, *, token: str | None = None, limit: int | None = None, methods: Collection[str] = POST
) -> TickView:
    """As `tick_asgi`, as a Django view: `path("api/jobs/tick", tick_view(app))`."""
    return TickView(Tick(app, token, limit, methods))


def lifespan(app: Wakeful, **flags: Any) -> Callable[[object], AbstractAsyncContextManager[None]]:
    """A worker for as long as the server runs: `FastAPI(lifespan=lifespan(app, concurrency=4))`.

    Beside a lifespan of your own, use `async with working(app)` in it.
    """

    @asynccontextmanager
    async def live(_: object) -> AsyncIterator[None]:
        async with working(app, **flags):
            yield

    return live
