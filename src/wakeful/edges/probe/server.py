"""A small HTTP server in a thread of its own: it answers also while a handler blocks the worker's loop."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from wakeful.edges.probe.fleet import Fleet
from wakeful.observe.measures import Measures, standing_families
from wakeful.values.errors import ConfigError
from wakeful.values.family import Family
from wakeful.values.standing import Standing

log = logging.getLogger("wakeful.probe")

Answer = tuple[HTTPStatus, str, bytes]


class Probe:
    """Serves while the block lasts. `standing` is asked at each request; None while the worker is not registered.

    `tries`: how many ports from `port` on to try, one for each process that runs beside this one. Port 0 is any.
    """

    def __init__(
        self,
        standing: Callable[[], Standing | None],
        measures: Measures,
        fleet: Fleet | None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tries: int = 1,
    ) -> None:
        self._standing = standing
        self._measures = measures
        self._fleet = fleet
        self._server = _bound(self, host, port, tries)
        self._measures.slot = str(self.port - port if port else 0)
        self._thread = threading.Thread(target=self._server.serve_forever, name="wakeful-probe", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        log.info("probe_started", extra={"event": "probe_started", "port": self.port})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> Answer:
        """What a GET is answered with."""
        match path.partition("?")[0].rstrip("/"):
            case "/healthz":
                return self._told(lambda standing: standing.alive)
            case "/readyz":
                return self._told(lambda standing: standing.ready)
            case "/metrics":
                return self._metrics()
        return _json(HTTPStatus.NOT_FOUND, {"error": "Ask for /healthz, /readyz or /metrics."})

    def _told(self, well: Callable[[Standing], bool]) -> Answer:
        standing = self._standing()
        if standing is None:
            return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "starting"})
        fine = well(standing)
        told = {
            "status": "ok" if fine else "failing",
            "worker_id": str(standing.worker_id),
            "last_claim_seconds": round(standing.answered_seconds, 3),
            "stopping": standing.stopping,
            "listener": "degraded" if standing.degraded else "ok" if standing.listens else "off",
            "running": standing.running,
            "slots": standing.slots,
        }
        return _json(HTTPStatus.OK if fine else HTTPStatus.SERVICE_UNAVAILABLE, told)

    def _metrics(self) -> Answer:
        try:
            from wakeful.edges.probe.exposition import CONTENT_TYPE_LATEST, text_of
        except ImportError:
            return _json(
                HTTPStatus.NOT_IMPLEMENTED, {"error": "Metrics need prometheus_client: install wakeful[metrics]."}
            )
        return HTTPStatus.OK, CONTENT_TYPE_LATEST, text_of(self.families())

    def families(self) -> list[Family]:
        """This process's numbers, and the fleet's where the database tells them."""
        standing = self._standing()
        own = [*self._measures.families(), *(standing_families(standing) if standing else ())]
        if self._fleet is None:
            return own
        try:
            shared = self._fleet.families()
        # No database, no right to look, or no answer in time: the process's own numbers are still worth a scrape.
        except Exception as error:
            log.warning("fleet_unread: %s", error, extra={"event": "fleet_unread"})
            shared = []
        text = "1 where the database told the fleet's numbers."
        return [*own, *shared, Family("wakeful_fleet_read", "gauge", text, (), {(): float(bool(shared))})]


def _bound(probe: Probe, host: str, port: int, tries: int) -> ThreadingHTTPServer:
    class Requests(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, body = probe.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            log.debug(format, *args)

    for number in range(port, port + tries):
        try:
            return Server((host, number), Requests)
        except OSError as error:
            problem = error
    raise ConfigError("probe_port", f"{port} cannot be had on {host} ({problem.strerror}): choose another.")


class Server(ThreadingHTTPServer):
    """Does not wait for a scraper that will not hang up, and shares its port with nobody."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    allow_reuse_port = False


def _json(status: HTTPStatus, document: Mapping[str, object]) -> Answer:
    return status, "application/json", json.dumps(document).encode() + b"\n"
