"""The tick: whoever has the token may have due jobs run in this process. For ASGI, WSGI and Django alike."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from wakeful.app import Wakeful
from wakeful.values.errors import DatabaseUnavailable
from wakeful.values.number import whole_number
from wakeful.worker import Worker
from wakeful.worker.ending import run_to_end
from wakeful.worker.summary import Summary

log = logging.getLogger("wakeful.web")

MOST_JOBS = 10_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client is told."""

    status: HTTPStatus
    body: bytes
    headers: tuple[tuple[str, str], ...]


class Tick:
    """Decides who may tick, and ticks. `token` and `limit` None: WAKEFUL_TICK_TOKEN and WAKEFUL_TICK_LIMIT."""

    def __init__(self, app: Wakeful, token: str | None, limit: int | None, methods: Collection[str]) -> None:
        self._app = app
        self._token = token
        self._limit = None if limit is None else whole_number(limit, "limit", 1, MOST_JOBS)
        self._methods = tuple(method.upper() for method in methods)

    def refusal(self, method: str, path: str, authorization: str) -> Answer | None:
        """What to tell who may not tick; None for who may."""
        if path.rstrip("/").rpartition("/")[2] != "tick":
            return answer(HTTPStatus.NOT_FOUND, error="There is nothing here: the endpoint is called tick.")
        if method not in self._methods:
            allowed = ", ".join(self._methods)
            return answer(HTTPStatus.METHOD_NOT_ALLOWED, ("Allow", allowed), error=f"Use {allowed}.")
        token = self._token or self._app.settings.web.tick_token
        if token is None:
            log.error("tick_refused: no token is configured", extra={"event": "tick_refused"})
            return answer(HTTPStatus.SERVICE_UNAVAILABLE, error="No token is configured: set WAKEFUL_TICK_TOKEN.")
        if not carries(authorization, token):
            return answer(
                HTTPStatus.UNAUTHORIZED,
                ("WWW-Authenticate", "Bearer"),
                error="Send the header Authorization: Bearer, with the token.",
            )
        return None

    def run(self) -> Answer:
        """Run what is due. Blocks; for threads that have no event loop."""
        try:
            return ticked(run_to_end(self._worker().arun_once(self.limit)))
        except DatabaseUnavailable as error:
            return unavailable(error)

    async def arun(self) -> Answer:
        """Run what is due, async handlers on this event loop."""
        try:
            return ticked(await self._worker().arun_once(self.limit))
        except DatabaseUnavailable as error:
            return unavailable(error)

    @property
    def limit(self) -> int:
        """How many jobs one tick claims at most."""
        return self._limit or self._app.settings.web.tick_limit

    def _worker(self) -> Worker:
        return self._app.worker()


def carries(authorization: str, token: str) -> bool:
    """Whether the header has the token. How long this takes tells nothing of it."""
    scheme, _, given = authorization.partition(" ")
    same = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), token.encode())
    return scheme.lower() == "bearer" and same


def ticked(summary: Summary) -> Answer:
    """The counts."""
    counts = {"processed": summary.processed, "succeeded": summary.succeeded, "failed": summary.failed}
    return answer(HTTPStatus.OK, ok=True, **counts)


def unavailable(error: DatabaseUnavailable) -> Answer:
    """The database is away; the client may try again."""
    log.error("tick_failed: %s", error, extra={"event": "tick_failed"})
    return answer(HTTPStatus.SERVICE_UNAVAILABLE, ("Retry-After", "10"), error="The database is not available.")


def answer(status: HTTPStatus, *headers: tuple[str, str], **facts: Any) -> Answer:
    """A JSON object; `ok` is false unless it is said."""
    body = json.dumps({"ok": False, **facts}).encode()
    plain = (("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Cache-Control", "no-store"))
    return Answer(status, body, (*plain, *headers))
