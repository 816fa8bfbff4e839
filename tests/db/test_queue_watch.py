"""The watch of `app.queue`: one listener, that comes back, that is found out when it is deaf, and that ends."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading

import pytest

from tests.db.queues import LISTENERS, Start, fall_asleep, sleepers
from tests.sessions import Session, background, query, scalar, session, shift_clock, until
from tests.verbs import enqueue
from wakeful.app import Wakeful
from wakeful.config import DatabaseSettings, Settings
from wakeful.database.address import with_database
from wakeful.queue import Queue, hearing, watch
from wakeful.testing import Database


def test_closing_sends_those_who_wait_away_with_nothing(
    start: Start, queue: Queue, app: Wakeful, database: Database, db: Session
) -> None:
    waiting = [start(wait=None), start(wait=30)]
    fall_asleep(app, db, 2)
    queue.close()
    assert [one.result(10) for one in waiting] == [[], []]
    assert sleepers(db) == 0
    until(lambda: scalar(db, LISTENERS, database.name) == 0)


def test_the_watch_ends_when_nobody_has_waited_for_a_while(
    queue: Queue, database: Database, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LINGER", 0.2)
    assert queue.claim(wait=0.1) == []
    until(lambda: "wakeful-queue-watch" not in {thread.name for thread in threading.enumerate()})
    until(lambda: scalar(db, LISTENERS, database.name) == 0)
    enqueue(db)
    assert len(queue.claim(wait=0.1)) == 1


def test_a_lost_listener_comes_back_and_misses_nothing(
    start: Start, app: Wakeful, database: Database, db: Session
) -> None:
    waiting = start(wait=30)
    fall_asleep(app, db)
    killed = query(
        db,
        "select pid, pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'wakeful listener' and datname = %s",
        database.name,
    )
    assert len(killed) == 1
    id = enqueue(db)
    assert [job.id for job in waiting.result(15)] == [id]


def test_a_listener_that_hears_nothing_is_found_out_and_polls_take_over(
    database: Database,
    db: Session,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(hearing, "CANARY_MUST_BE_HEARD_WITHIN", 0.2)
    monkeypatch.setattr(watch, "POLL_WHEN_DEAF", 0.1)
    # A listener in another database is as deaf as one behind a pooler.
    elsewhere = with_database(database.dsn, "postgres")
    settings = Settings(database=DatabaseSettings(dsn=database.dsn, listen_dsn=elsewhere))
    with Wakeful(settings=settings) as app, background() as submit, caplog.at_level(logging.WARNING, "wakeful"):
        queue = Queue(app)
        waiting = submit(queue.claim, wait=30)
        until(lambda: "listener_deaf" in caplog.text)
        id = enqueue(db)
        assert [job.id for job in waiting.result(10)] == [id]
        queue.close()


def test_with_notifications_off_polls_do_it_all(
    database: Database, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "POLL_WHEN_DEAF", 0.1)
    settings = Settings(database=DatabaseSettings(dsn=database.dsn, notify=False))
    with Wakeful(settings=settings) as app, background() as submit:
        queue = Queue(app)
        waiting = submit(queue.claim, wait=30)
        until(lambda: sleepers(db) == 1)
        id = enqueue(db)
        assert [job.id for job in waiting.result(10)] == [id]
        assert scalar(db, LISTENERS, database.name) == 0
        queue.close()


WAITING = """
import sys
from wakeful.app import Wakeful
from wakeful.queue import Queue
Queue(Wakeful(sys.argv[1])).claim(wait=60)
"""


def test_a_sleeper_whose_process_was_killed_is_forgotten_in_a_minute(database: Database, db: Session) -> None:
    process = subprocess.Popen([sys.executable, "-c", WAITING, database.dsn])
    try:
        until(lambda: sleepers(db) == 1, 30)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert sleepers(db) == 1
    shift_clock(db, "61 seconds")
    worker = scalar(db, "select worker_id from wakeful.sleeper")
    with session(database.dsn) as listener:
        listener.execute(f"listen wakeful_{worker.hex}")
        enqueue(db)
        listener.execute("select 1")
        assert list(listener.notifies(timeout=0.2)) == [], "nobody is poked in vain"
    with Wakeful(database.dsn) as app:
        queue = Queue(app)
        queue.claim()
        queue.claim(wait=0.3)
        queue.close()
    assert sleepers(db) == 0


def test_a_forked_child_is_another_worker(queue: Queue, app: Wakeful, database: Database, db: Session) -> None:
    enqueue(db)
    [job] = queue.claim(wait=5)
    mine = queue.worker_id
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            other = queue.worker_id
            refused = False
            try:
                queue.mark_completed(job.id)
            except Exception as error:  # Told to the parent, whatever it is.
                refused = "not held by this queue" in str(error)
            jobs = queue.claim(wait=10)
            queue.mark_completed(jobs[0])
            os.write(write, b"%d" % (other != mine and refused and len(jobs) == 1))
        finally:
            os._exit(0)
    os.close(write)
    enqueue(db)
    _, status = os.waitpid(child, 0)
    assert (status, os.read(read, 9)) == (0, b"1")
    os.close(read)
    queue.mark_completed(job.id)
    assert scalar(db, "select count(*) from wakeful.jobs where state = 'completed'") == 2
