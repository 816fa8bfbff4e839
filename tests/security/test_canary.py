"""A secret that is planted in the address and in payloads appears in no log, error or description."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from tests.sessions import session, value
from tests.worker.processes import Journal, fleet_on, until
from wakeful.app import Wakeful
from wakeful.database.address import describe
from wakeful.database.connect import connect
from wakeful.testing import Database
from wakeful.values.errors import DatabaseUnavailable
from wakeful.values.retry import Fixed

CANARY = "canary-8d1f6b2c"


def test_no_error_or_description_of_an_address_has_its_password(database: Database) -> None:
    dsn = make_conninfo(database.dsn, password=CANARY)
    with pytest.raises(DatabaseUnavailable) as refused:
        connect(dsn)
    told = [str(refused.value), repr(refused.value), describe(dsn), repr(Wakeful(dsn)), str(refused.value.__dict__)]
    unreachable = make_conninfo(dsn, host="127.0.0.1", port=1)
    with pytest.raises(DatabaseUnavailable) as lost:
        connect(unreachable)
    told += [str(lost.value), repr(lost.value)]
    assert not [text for text in told if CANARY in text]


def test_no_worker_logs_what_a_payload_holds(database: Database, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    with fleet_on(database.dsn, journal) as fleet, session(database.dsn) as db:
        worker = fleet.start(concurrency=2).started()
        # One that its handler does not take, one that fails late, one that is fine.
        refused = value(db, "enqueue", task="lasts", payload={"seconds": CANARY}, max_attempts=1)
        unknown = value(db, "enqueue", task="lasts", payload={"seconds": 0, "more": CANARY}, max_attempts=1)
        fine = value(db, "enqueue", task="quick", payload={}, metadata={"secret": CANARY}, tenant=CANARY)
        ids = [refused, unknown, fine]
        statement = "select count(*) as left from wakeful.job where id = any (%s)"
        until(lambda: db.execute(statement, [ids]).fetchone() == {"left": 0})
        assert CANARY not in worker.log


def test_a_wrong_password_is_not_told_by_a_worker(database: Database, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    with fleet_on(make_conninfo(database.dsn, password=CANARY), journal) as fleet:
        worker = fleet.start()
        assert worker.ends() != 0
        assert CANARY not in worker.log


async def test_a_field_that_is_declared_redacted_is_in_no_error_log_view_or_dead_letter(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with Wakeful(database.dsn) as app:

        @app.task(name="leaky", redact=["token"], max_attempts=2, retry=Fixed(0))
        async def leaky(token: str, n: int) -> None:
            raise ValueError(f"the service refused {token}", {"token": token})

        id = await leaky.aenqueue(token=CANARY, n=1)
        await app.worker(concurrency=1).arun_once(limit=10)
        with session(database.dsn) as db:
            [row] = db.execute("select * from wakeful.jobs where id = %s", [id]).fetchall()
            [letter] = db.execute("select * from wakeful.dead_letter where id = %s", [id]).fetchall()
        assert row["state"] == "dead"
        # The payload itself is what the handler needs, and stays what it is.
        told = {name: column for name, column in row.items() if name != "payload"}
        original = {name: column for name, column in letter["original_job"].items() if name != "payload"}
        assert CANARY not in str(told)
        assert CANARY not in str({**letter, "original_job": original})
    assert CANARY not in caplog.text
