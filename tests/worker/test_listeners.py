"""Alerts and usage as users get them: by a function of theirs, and by a webhook."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.sessions import Session, query
from tests.verbs import enqueue, fail, started
from tests.worker.work import soon, working
from wakeful.app import Wakeful
from wakeful.config import AlertSettings
from wakeful.observe import webhook as webhook_module
from wakeful.observe.webhook import Webhook
from wakeful.values.alert import Alert, UsageEvent
from wakeful.values.retry import Fixed


class Receiver:
    """A server that keeps what is posted; the first `refusals` are refused. It answers while its `door` is open."""

    def __init__(self, refusals: int = 0, status: int = 503, location: str = "") -> None:
        self.posted: list[dict[str, Any]] = []
        self.refusals = refusals
        self.knocked, self.door = threading.Event(), threading.Event()
        self.door.set()
        receiver = self

        class Requests(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.knocked.set()
                receiver.door.wait()
                refused = receiver.refusals > 0
                receiver.refusals -= 1
                if not refused:
                    receiver.posted.append(body)
                self.send_response(status if refused else 204)
                if refused and location:
                    self.send_header("Location", location)
                self.end_headers()

            def do_GET(self) -> None:
                """As most servers answer at an address that was made for POST: kindly."""
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"

    def __enter__(self) -> Receiver:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


async def test_every_run_of_a_tenant_is_metered(app: Wakeful, db: Session, receiver: Receiver) -> None:
    app.settings = replace(app.settings, observe=replace(app.settings.observe, usage_webhook=receiver.url))
    told: list[UsageEvent] = []
    app.on_usage(told.append)

    @app.task(name="work", retry=Fixed(0), max_attempts=2)
    async def work(fails: bool) -> None:
        if fails:
            raise ValueError

    await work.using(tenant="acme").aenqueue(False)
    await work.using(tenant="acme").aenqueue(True)
    await work.aenqueue(False)
    worker = app.worker()
    for _ in range(2):
        await worker.arun_once()
    assert sorted((event.tenant, event.task, event.outcome) for event in told) == [
        ("acme", "work", "completed"),
        ("acme", "work", "dead"),
        ("acme", "work", "failed"),
    ]
    assert all(0 <= event.seconds < 10 for event in told)
    posted = [event for body in receiver.posted for event in body["usage"]]
    assert sorted(event["outcome"] for event in posted) == ["completed", "dead", "failed"]
    summed = query(db, "select outcome, runs from wakeful.usages order by outcome")
    assert [(row["outcome"], row["runs"]) for row in summed] == [("completed", 1), ("dead", 1), ("failed", 1)]


async def test_an_alert_reaches_the_log_a_function_and_a_webhook(
    app: Wakeful, db: Session, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rules = AlertSettings(alert_every=timedelta(seconds=0.05), alert_webhook=receiver.url)
    app.settings = replace(app.settings, alert=rules)
    told: list[Alert] = []
    app.on_alert(told.append)

    @app.task(name="t")
    async def t() -> None: ...

    held = started(db, "dead")
    fail(db, held, no_retry=True)
    async with working(app):
        await soon(lambda: bool(told))
        db.execute("select wakeful.acknowledge(%s)", [held.id])
        await soon(lambda: len(told) == 2)
    assert [(alert.rule, alert.fired) for alert in told] == [("dead_letters", True), ("dead_letters", False)]
    assert told[0].sentence == "1 dead letter is unseen, more than 0."
    events = [getattr(record, "event", None) for record in caplog.records]
    assert (events.count("alert_fired"), events.count("alert_cleared")) == (1, 1)
    posted = [alert for body in receiver.posted for alert in body["alerts"]]
    assert [(alert["rule"], alert["fired"]) for alert in posted] == [("dead_letters", True), ("dead_letters", False)]


def test_a_webhook_that_is_refused_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    with Receiver(refusals=2) as receiver:
        webhook = Webhook(receiver.url, "usage", wait_seconds=0.01)
        webhook.post([{"n": 1}])
        webhook.close()
        assert receiver.posted == [{"usage": [{"n": 1}]}]
        receiver.refusals = 99
        webhook.post([{"n": 2}])
        webhook.close()
    assert len(receiver.posted) == 1
    assert [record.__dict__["event"] for record in caplog.records] == ["webhook_failed"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_webhook_that_has_moved_is_a_failure_that_names_the_new_address(
    caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """To follow a redirect is to ask with an empty GET: somebody answers, and nothing has arrived."""
    with Receiver(99, status, location="//me:secret@127.0.0.1:1/ne\x1bw?token=secret#here") as receiver:
        webhook = Webhook(receiver.url, "usage", wait_seconds=0.01)
        webhook.post([{"n": 1}])
        webhook.close()
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith(f"webhook_failed: 1 usage were not delivered: HTTP Error {status}: ")
    assert told.endswith(": it has moved to http://127.0.0.1:1/ne%1Bw, so set that address")


@pytest.mark.parametrize("location", ["", "http://[", "/new"])
def test_a_webhook_that_has_moved_somewhere_goes_on(caplog: pytest.LogCaptureFixture, location: str) -> None:
    with Receiver(webhook_module.TRIES, 302, location) as receiver:
        webhook = Webhook(receiver.url, "usage", wait_seconds=0.01)
        webhook.post([{"n": 1}])
        webhook.close()
        webhook.post([{"n": 2}])
        webhook.close()
    assert receiver.posted == [{"usage": [{"n": 2}]}]
    [told] = [record.getMessage() for record in caplog.records]
    assert (f"{receiver.url}new" in told) == (location == "/new")


def test_a_webhook_posts_to_web_servers_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    webhook = Webhook(tmp_path.as_uri(), "usage", wait_seconds=0.01)
    webhook.post([{"n": 1}])
    webhook.close()
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["file>"]


def test_a_webhook_closes_in_its_time_though_all_is_full_and_nobody_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(webhook_module, "MOST_WAITING", 3)
    monkeypatch.setattr(webhook_module, "PATIENCE_SECONDS", 2.0)
    before = set(threading.enumerate())
    with Receiver() as receiver:
        receiver.door.clear()
        webhook = Webhook(receiver.url, "usage", wait_seconds=0.01)
        webhook.post([{"n": 0}])
        assert receiver.knocked.wait(10)
        [posting] = [thread for thread in set(threading.enumerate()) - before if thread.name == "wakeful-usage"]
        webhook.post([{"n": n} for n in (1, 2, 3)])
        began = time.monotonic()
        webhook.close(0.2)
        assert time.monotonic() - began < 1.5
        assert [record.__dict__["documents"] for record in caplog.records] == [3]
        receiver.door.set()
        posting.join(10)
        assert not posting.is_alive()
        webhook.post([{"n": 4}])
        webhook.close()
    assert [body["usage"] for body in receiver.posted] == [[{"n": 0}], [{"n": 4}]]


async def test_a_worker_that_nobody_listens_to_starts_as_before(app: Wakeful, db: Session) -> None:
    @app.task(name="t")
    async def t() -> None: ...

    enqueue(db, "t")
    assert (await app.worker().arun_once()).succeeded == 1
