"""The probe port: liveness, readiness and a scrape, from a thread that no handler can block."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from tests.sessions import Session
from tests.verbs import enqueue, fail, started
from tests.worker.work import working
from wakeful.app import Wakeful
from wakeful.edges.probe import Probe
from wakeful.edges.probe.fleet import Fleet
from wakeful.observe.measures import Measures
from wakeful.testing import Database
from wakeful.values.errors import ConfigError
from wakeful.values.standing import Standing
from wakeful.worker import Worker

WELL = Standing(uuid4(), 1.0, 20.0, False, True, True, 4, 1, {})


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def aget(port: int, path: str) -> tuple[int, str]:
    return await asyncio.to_thread(get, port, path)


@contextmanager
def probed(app: Wakeful, worker: Worker, measures: Measures, database: Database) -> Iterator[Probe]:
    with Probe(lambda: worker.standing, measures, Fleet(database.dsn)) as probe:
        yield probe


@pytest.mark.parametrize(
    ("standing", "live", "ready"),
    [
        (None, 503, 503),
        (WELL, 200, 200),
        (replace(WELL, stopping=True), 200, 503),
        (replace(WELL, answered_seconds=69.0), 200, 200),
        (replace(WELL, answered_seconds=71.0), 503, 503),
        (replace(WELL, hears=False), 200, 200),
    ],
)
def test_the_last_answer_to_a_claim_decides(standing: Standing | None, live: int, ready: int) -> None:
    with Probe(lambda: standing, Measures(), None) as probe:
        assert get(probe.port, "/healthz")[0] == live
        assert get(probe.port, "/readyz?verbose=1")[0] == ready


def test_a_deaf_listener_is_told_of_and_other_paths_are_not_found() -> None:
    with Probe(lambda: replace(WELL, hears=False), Measures(), None) as probe:
        assert json.loads(get(probe.port, "/readyz")[1])["listener"] == "degraded"
        status, told = get(probe.port, "/")
        assert (status, "/healthz" in told) == (404, True)


def test_a_port_that_is_taken_is_refused_or_the_next_one_is_tried() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="choose another"):
            Probe(lambda: None, Measures(), None, port=port)
        measures = Measures()
        with Probe(lambda: None, measures, None, port=port, tries=30) as probe:
            assert port < probe.port <= port + 30
            assert measures.slot == str(probe.port - port)


async def test_a_worker_answers_also_while_a_handler_blocks_its_loop(app: Wakeful, database: Database) -> None:
    @app.task(name="blocks")
    async def blocks() -> None:
        time.sleep(0.4)

    async with working(app) as worker:
        measures = Measures()
        with probed(app, worker, measures, database) as probe:
            await blocks.aenqueue()
            answers = await asyncio.to_thread(lambda: [get(probe.port, "/healthz")[0] for _ in range(3)])
            assert answers == [200, 200, 200]


def samples(text: str, name: str) -> dict[str, float]:
    found = re.findall(rf"^{name}(\{{.*?\}})? (\S+)$", text, re.MULTILINE)
    return {labels: float(number) for labels, number in found}


async def test_a_scrape_tells_the_worker_and_the_fleet(app: Wakeful, db: Session, database: Database) -> None:
    measures = Measures()
    app.observe(measures)

    @app.task(name="good")
    async def good() -> None: ...

    @app.task(name="bad", max_attempts=1)
    async def bad() -> None:
        raise ValueError

    fail(db, started(db, "gone"), no_retry=True)
    enqueue(db, "elsewhere")
    async with working(app) as worker:
        for _ in range(3):
            await good.aenqueue()
        await bad.aenqueue()
        done: dict[str, Any] = {}
        while sum(done.values()) < 4:
            with probed(app, worker, measures, database) as probe:
                status, text = await aget(probe.port, "/metrics")
            assert status == 200
            done = samples(text, "wakeful_job_completed_total")
    assert done == {'{status="success",task="good"}': 3.0, '{status="dead",task="bad"}': 1.0}
    assert samples(text, "wakeful_job_claimed_total")['{task="good",worker_id="0"}'] == 3
    assert samples(text, "wakeful_job_processing_seconds_count")['{task="good"}'] == 3
    assert samples(text, "wakeful_job_queue_seconds_count")['{task="good"}'] == 3
    assert samples(text, "wakeful_job_queue_depth")['{task="elsewhere"}'] == 1
    assert samples(text, "wakeful_job_oldest_ready_seconds")['{task="elsewhere"}'] >= 0
    assert samples(text, "wakeful_dead_letters")[""] >= 1
    assert samples(text, "wakeful_workers_alive")[""] == 1
    assert samples(text, "wakeful_orphan_tasks")[""] == 1
    assert samples(text, "wakeful_job_notification_received_total")['{channel="wakeful"}'] >= 1
    assert samples(text, "wakeful_wakeups_total").keys() == {f'{{source="{one}"}}' for one in ("poke", "timer", "poll")}
    for name in (
        *("job_poll_scanned_total", "settle_batch_size_count", "lease_lost_total", "job_rescued_total"),
        *("oldest_snapshot_seconds", "notify_queue_usage", "fleet_read"),
    ):
        assert samples(text, f"wakeful_{name}"), name
    assert '{table="job"}' in samples(text, "wakeful_dead_tuples")


async def test_without_a_database_the_process_still_tells_its_own(app: Wakeful) -> None:
    with Probe(lambda: None, Measures(), Fleet("postgresql://127.0.0.1:1/nowhere?connect_timeout=1")) as probe:
        status, text = await aget(probe.port, "/metrics")
    assert status == 200
    assert samples(text, "wakeful_fleet_read") == {"": 0}
