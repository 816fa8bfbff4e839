"""`wakeful bench` as a process: it answers, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psycopg
from psycopg import sql

from tests.acceptance.commands import CONSOLE_SCRIPT, Commands
from tests.sessions import Session, query
from wakeful.database.address import with_database
from wakeful.testing import Database

SMALL = ("--seconds", "0.2", "--jobs", "200")
LEFT = "select datname from pg_database where datname like 'wakeful\\_bench\\_%%' and datname <> all (%s)"


def made_by(db: Session, pid: int) -> bool:
    return bool(query(db, "select from pg_database where datname = %s", f"wakeful_bench_{pid}"))


def test_it_tells_what_the_server_carries(wakeful: Commands) -> None:
    told = wakeful.json("bench", *SMALL)
    assert told.pop("server")
    assert set(told) == {
        "commit_ms",
        "bare_inserts_per_second",
        "enqueues_per_second",
        "bulk_per_second",
        "drained_per_second",
        "wake_p50_ms",
        "wake_p99_ms",
    }
    assert min(told.values()) > 0
    assert told["wake_p50_ms"] <= told["wake_p99_ms"]


def test_its_database_is_gone_afterwards(wakeful: Commands, db: Session) -> None:
    before = [row["datname"] for row in query(db, "select datname from pg_database")]
    assert "jobs/s" in wakeful.text("bench", *SMALL)
    assert query(db, LEFT, before) == []


def test_its_database_is_gone_when_it_is_told_to_stop(database: Database, db: Session) -> None:
    command = [sys.executable, "-c", CONSOLE_SCRIPT, "bench", "--seconds", "30"]
    with subprocess.Popen(command, env={**os.environ, "WAKEFUL_DSN": database.dsn}, stderr=subprocess.PIPE) as bench:
        deadline = time.monotonic() + 30
        while not made_by(db, bench.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert made_by(db, bench.pid)
        bench.send_signal(signal.SIGTERM)
        assert bench.wait(30) == 1
        assert not made_by(db, bench.pid)


def test_a_user_who_may_not_create_databases_is_told_so(database: Database, db: Session) -> None:
    role = sql.Identifier(f"{database.name}_poor")
    db.execute(sql.SQL("create role {} login password 'x'").format(role))
    try:
        poor = psycopg.conninfo.make_conninfo(database.dsn, user=f"{database.name}_poor", password="x")
        sentence = Commands(with_database(poor, "postgres")).refusal(1, "bench", *SMALL)
        assert "grant CREATEDB" in sentence
    finally:
        db.execute(sql.SQL("drop role {}").format(role))
