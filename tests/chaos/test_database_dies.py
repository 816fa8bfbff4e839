"""A server that is killed, cuts connections, or has none left: acknowledged jobs end, once, and workers outlive it."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.chaos.server import Server, private_server
from tests.chaos.verdict import all_over, effects_happened_once
from tests.sessions import Session, background, query, scalar, session, value
from tests.worker.processes import Fleet, Journal, fleet_on, until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with private_server(tmp_path / "server", max_connections="20") as made:
        yield made


def produce(dsn: str, task: str, count: int) -> list[UUID]:
    """Enqueue jobs one by one; the ids of those that were acknowledged. What failed is sent again, under its id."""
    ids: list[UUID] = []
    while len(ids) < count:
        id = uuid4()
        while id not in ids:
            with suppress(psycopg.OperationalError), psycopg.connect(dsn, autocommit=True) as conn:
                conn.execute("select wakeful.enqueue(%s, '{}', id => %s)", [task, id])
                ids.append(id)
    return ids


def test_a_server_that_is_killed_and_restarted_under_load(server: Server, journal: Journal) -> None:
    with fleet_on(server.dsn, journal) as fleet, background() as start:
        workers = [fleet.start(lease=10, concurrency=5, poll_interval=2).started() for _ in range(2)]
        producing = [start(produce, server.dsn, task, 100) for task in ("effect", "quick")]
        for share in (20, 100):
            until(lambda share=share: len(journal.lines("start")) > share)  # type: ignore[misc]
            server.kill()
            server.start()
        ids = [id for produced in producing for id in produced.result()]
        with session(server.dsn) as db:
            assert all_over(db, ids, 90) == {"completed": 200}
            effects_happened_once(db)
        assert [worker.process.poll() for worker in workers] == [None, None], "no worker was lost with it"


def test_a_worker_stops_with_the_database_gone(server: Server, journal: Journal, tmp_path: Path) -> None:
    with fleet_on(server.dsn, journal) as fleet:
        worker = fleet.start(lease=30, concurrency=2, shutdown_timeout=1).started()
        with session(server.dsn) as db:
            finishes = value(db, "enqueue", task="waits", payload={"path": str(tmp_path / "go")})
            lasts = value(db, "enqueue", task="lasts", payload={"seconds": 3600})
        until(lambda: len(journal.lines("start")) == 2)
        server.kill()
        until(lambda: "database_lost" in worker.log)
        (tmp_path / "go").touch()
        until(lambda: journal.lines("end"))
        asked = time.monotonic()
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0
        assert time.monotonic() - asked < 25
        server.start()
        # What it could not write is with the table, and comes back when the lease lapses.
        with session(server.dsn) as db:
            rows = query(db, "select state from wakeful.jobs where id = any (%s)", [finishes, lasts])
            assert [row["state"] for row in rows] == ["running", "running"]
            db.execute("update wakeful.worker set lease_expires_at = now()")
            assert value(db, "rescue") == 2
            assert scalar(db, "select max(attempt) from wakeful.job") == 0, "a lost database is no crash"


def test_the_second_signal_stops_at_once_with_the_database_gone(server: Server, journal: Journal) -> None:
    with fleet_on(server.dsn, journal) as fleet:
        worker = fleet.start(shutdown_timeout=3600).started()
        with session(server.dsn) as db:
            value(db, "enqueue", task="lasts", payload={"seconds": 3600})
        until(lambda: journal.lines("start"))
        server.kill()
        for _ in range(2):
            worker.signal(signal.SIGTERM)
            until(lambda: "worker_stopping" in worker.log)
        assert worker.ends() == 0


def test_a_server_without_a_connection_left(server: Server, journal: Journal) -> None:
    with fleet_on(server.dsn, journal) as fleet, session(server.dsn) as db, background() as start:
        worker = fleet.start(lease=10, concurrency=5, poll_interval=2).started()
        first = [value(db, "enqueue", task="effect", payload={}) for _ in range(20)]
        assert all_over(db, first) == {"completed": 20}
        ended = threading.Event()
        taking = start(take_all_connections, server.dsn, ended)
        second = [value(db, "enqueue", task="effect", payload={}) for _ in range(20)]
        # The worker's own connections are cut, and it finds none in their place.
        until(lambda: cut_worker(db) and "no connection left" in worker.log)
        ended.set()
        taking.result()
        assert all_over(db, second) == {"completed": 20}
        effects_happened_once(db)
        assert worker.process.poll() is None


def take_all_connections(dsn: str, ended: threading.Event) -> None:
    """Take every connection there is, and each that comes free, until it is over."""
    taken: list[psycopg.Connection[tuple[object, ...]]] = []
    while not ended.wait(0.001):
        with suppress(psycopg.OperationalError):
            taken.append(psycopg.connect(dsn, application_name="greedy"))
    for conn in taken:
        conn.close()


def cut_worker(db: Session) -> bool:
    """Cut the connections of the workers of this server; True when they have none."""
    return not query(
        db,
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name like 'wakeful%' and pid <> pg_backend_pid()",
    )


def test_connections_that_are_cut_at_random_under_load(fleet: Fleet, journal: Journal, db: Session) -> None:
    chance = random.Random(7)
    workers = [fleet.start(lease=10, concurrency=5, poll_interval=2).started() for _ in range(2)]
    ids = [value(db, "enqueue", task="effect", payload={}) for _ in range(300)]
    ids += [value(db, "enqueue", task="in_thread", payload={}) for _ in range(100)]
    for _ in range(25):
        victims = query(
            db,
            "select pid from pg_stat_activity where datname = current_database() and application_name like 'wakeful%'"
            " and pid <> pg_backend_pid()",
        )
        if victims:
            db.execute("select pg_terminate_backend(%s)", [chance.choice(victims)["pid"]])
        time.sleep(chance.uniform(0.01, 0.1))
    assert all_over(db, ids, 60) == {"completed": 400}
    effects_happened_once(db)
    assert [worker.process.poll() for worker in workers] == [None, None]


def test_without_faults_no_job_starts_twice(fleet: Fleet, journal: Journal, db: Session) -> None:
    for _ in range(2):
        fleet.start(concurrency=8).started()
    ids = [value(db, "enqueue", task=task, payload={}) for task in ("quick", "effect", "in_thread") for _ in range(100)]
    assert all_over(db, ids) == {"completed": 300}
    effects_happened_once(db)
    assert set(journal.starts().values()) == {1}
