"""The tick as a WSGI app, for Flask and its kin, and as a Django view."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from wakeful.edges.web.tick import Tick

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

StartResponse = Callable[[str, list[tuple[str, str]]], object]


class TickWSGI:
    """Answers `POST …/tick`. Blocks until the jobs have run."""

    def __init__(self, tick: Tick) -> None:
        self._tick = tick

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """One request."""
        method, authorization = environ["REQUEST_METHOD"], environ.get("HTTP_AUTHORIZATION", "")
        # Mounted on the very path, nothing is left of it.
        path = environ.get("PATH_INFO", "").strip("/") or environ.get("SCRIPT_NAME", "")
        told = self._tick.refusal(method, path, authorization) or self._tick.run()
        start_response(f"{told.status.value} {told.status.phrase}", list(told.headers))
        return [told.body]


class TickView:
    """Answers `POST …/tick` as a Django view. The token stands in for the CSRF cookie, which no cron has."""

    csrf_exempt = True

    def __init__(self, tick: Tick) -> None:
        self._tick = tick

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """One request. Django's async server calls it in a thread."""
        from django.http import HttpResponse

        authorization = request.headers.get("Authorization", "")
        told = self._tick.refusal(request.method or "", request.path, authorization) or self._tick.run()
        return HttpResponse(told.body, status=int(told.status), headers=dict(told.headers))
