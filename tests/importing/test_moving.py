"""No row is lost or doubled, whoever else writes, imports, or kills the importer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.commands import CONSOLE_SCRIPT, Commands
from tests.acceptance.processes import wait_until
from tests.importing import shapes
from tests.sessions import Session, query, scalar, session
from wakeful.edges.importing.mapping import find_mapping
from wakeful.edges.importing.run import importer
from wakeful.testing import Database

FILL = """
insert into jobs (job_type, payload, status)
select 'implicate_refresh', jsonb_build_object('number', n), 'pending' from generate_series(%s::int, %s::int) n
"""


@pytest.fixture
def table(db: Session) -> Session:
    db.execute(shapes.IMPLICATE)
    return db


def numbers(db: Session) -> list[int]:
    """The number in the payload of every job, whatever its state."""
    return [
        row["number"] for row in query(db, "select (payload ->> 'number')::int as number from wakeful.jobs order by 1")
    ]


def test_a_second_run_moves_nothing(wakeful: Commands, table: Session) -> None:
    table.execute(FILL, [1, 1200])
    assert wakeful.json("import", "implicate")["moved"] == 1200
    assert wakeful.json("import", "implicate")["moved"] == 0
    assert numbers(table) == list(range(1, 1201))


def test_rows_that_are_offered_again_are_known(table: Session, tmp_path: Path, wakeful: Commands) -> None:
    """`leave` is for tables that nobody works on any more: the ledger alone tells what has moved."""
    table.execute(FILL, [1, 30])
    mapping = tmp_path / "leave.toml"
    mapping.write_text(wakeful.text("import", "implicate", "--show").replace("key =", 'take = "leave"\nkey ='))
    assert wakeful.json("import", str(mapping), "--batch", "7")["moved"] == 30
    told = wakeful.json("import", str(mapping))
    assert (told["moved"], told["known"], told["left"]) == (0, 30, {"pending": 30})
    assert numbers(table) == list(range(1, 31))


def test_an_importer_that_is_killed_between_batches_is_resumed(table: Session, database: Database) -> None:
    table.execute(FILL, [1, 3000])
    command = [sys.executable, "-c", CONSOLE_SCRIPT, "import", "implicate", "--batch", "5"]
    process = subprocess.Popen(command, env={**os.environ, "WAKEFUL_DSN": database.dsn})
    wait_until(lambda: scalar(table, "select count(*) from wakeful.imports") >= 20)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    moved = len(numbers(table))
    assert 0 < moved < 3000
    with importer(database.dsn, find_mapping("implicate", {})) as work:
        assert work.run().moved == 3000 - moved
    assert numbers(table) == list(range(1, 3001))
    assert scalar(table, "select count(*) from jobs") == 0


def test_two_importers_at_once_share_the_rows(table: Session, database: Database) -> None:
    table.execute(FILL, [1, 2000])

    def one(_: int) -> int:
        with importer(database.dsn, find_mapping("implicate", {}), 20) as work:
            return work.run().moved

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(one, range(2))) == 2000
    assert numbers(table) == list(range(1, 2001))


def test_two_importers_of_rows_that_stay_make_each_once(table: Session, database: Database) -> None:
    table.execute(FILL, [1, 300])
    mapping = find_mapping("implicate", {"take": "leave"})

    def one(_: int) -> int:
        with importer(database.dsn, mapping, 10) as work:
            return work.run().moved

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(one, range(2))) == 300
    assert numbers(table) == list(range(1, 301))


def test_the_old_producer_and_the_old_worker_may_go_on(table: Session, database: Database) -> None:
    """Every row is worked on once: by the old worker, or as a job."""
    stop, worked = threading.Event(), list[int]()

    def produce() -> None:
        with session(database.dsn) as mine:
            for number in range(1, 601):
                mine.execute(FILL, [number, number])

    def work_the_old_way() -> None:
        with session(database.dsn) as mine:
            while not stop.is_set():
                rows = query(
                    mine,
                    "update jobs set status = 'completed' where id = (select id from jobs where status = 'pending'"
                    " limit 1 for update skip locked) returning payload",
                )
                worked.extend(row["payload"]["number"] for row in rows)

    with ThreadPoolExecutor(2) as pool, importer(database.dsn, find_mapping("implicate", {}), 20) as work:
        producing, working = pool.submit(produce), pool.submit(work_the_old_way)
        while not producing.done():
            work.run()
        producing.result()
        stop.set()
        working.result()
        work.run()
    assert sorted([*worked, *numbers(table)]) == list(range(1, 601))


def test_a_row_that_the_old_worker_holds_is_passed_over(table: Session, wakeful: Commands, database: Database) -> None:
    table.execute(FILL, [1, 3])
    with session(database.dsn) as old, old.transaction():
        old.execute("select from jobs where payload ->> 'number' = '2' for update")
        assert wakeful.json("import", "implicate")["moved"] == 2
    assert wakeful.json("import", "implicate")["moved"] == 1


def test_one_bad_row_blocks_no_other(table: Session, wakeful: Commands) -> None:
    table.execute(FILL, [1, 40])
    table.execute("insert into jobs (job_type, payload, status) values ('t', '[1]', 'pending'), ('', '{}', 'pending')")
    ran = wakeful.run("import", "implicate")
    assert ran.returncode == 1
    assert "40 rows of public.jobs moved" in ran.stdout
    assert ran.stderr.count("stays where it is") == 2
    assert numbers(table) == list(range(1, 41))
    assert scalar(table, "select count(*) from jobs") == 2


def test_a_task_that_is_switched_off_keeps_its_rows(table: Session, wakeful: Commands) -> None:
    table.execute(FILL, [1, 2])
    table.execute("select wakeful.switch_task('implicate_refresh', false)")
    told = wakeful.json("import", "implicate", code=1)
    assert (told["moved"], len(told["refused"]), told["left"]) == (0, 2, {"pending": 2})


def test_a_dry_run_changes_nothing(table: Session, wakeful: Commands) -> None:
    table.execute(FILL, [1, 5])
    told = wakeful.json("import", "implicate", "--dry-run")
    assert (told["dry_run"], told["moved"], told["left"]) == (True, 5, {"pending": 5})
    assert numbers(table) == []
    assert scalar(table, "select count(*) from wakeful.imports") == 0


def test_what_was_not_started_goes_back_as_it_was(table: Session, wakeful: Commands) -> None:
    table.execute(FILL, [1, 10])
    before = query(table, "select * from jobs order by id")
    wakeful.json("import", "implicate")
    worker = scalar(table, "select gen_random_uuid()")
    [taken] = query(table, "select (payload ->> 'number')::int as number from wakeful.claim(%s, want => 1)", worker)
    told = wakeful.json("import", "implicate", "--back")
    assert (told["moved"], told["left"]) == (9, {"pending": 9})
    after = query(table, "select * from jobs order by id")
    assert after == [row for row in before if row["payload"]["number"] != taken["number"]]
    states = query(table, "select state, count(*) as jobs from wakeful.jobs group by 1 order by 1")
    assert states == [{"state": "cancelled", "jobs": 9}, {"state": "running", "jobs": 1}]
    # And once more to and fro: the ledger has let go of what went back.
    assert wakeful.json("import", "implicate")["moved"] == 9
    assert wakeful.json("import", "implicate", "--back")["moved"] == 9


def test_marked_rows_go_back_too(db: Session, wakeful: Commands) -> None:
    db.execute(shapes.LIPAS)
    db.execute("insert into jobs (type, payload) values ('email', '{}')")
    before = query(db, "select * from jobs")
    wakeful.json("import", "lipas")
    assert scalar(db, "select status from jobs") == "completed"
    assert wakeful.json("import", "lipas", "--back")["moved"] == 1
    assert query(db, "select * from jobs") == before


def test_a_twin_that_was_here_before_does_not_go_back(db: Session, wakeful: Commands) -> None:
    db.execute(shapes.LIPAS)
    db.execute("select wakeful.enqueue('webhook', dedup_key => 'w')")
    db.execute("insert into jobs (type, payload, dedup_key) values ('webhook', '{}', 'w')")
    assert wakeful.json("import", "lipas")["joined"] == 1
    assert wakeful.json("import", "lipas", "--back")["moved"] == 0
    assert scalar(db, "select state from wakeful.jobs") == "ready"


def test_the_ledger_outlives_a_migration_down_and_up(table: Session, wakeful: Commands) -> None:
    table.execute(FILL, [1, 3])
    wakeful.json("import", "implicate")
    wakeful.text("migrate", "down", "--to", "0", "--yes")
    wakeful.text("migrate", "up")
    assert scalar(table, "select count(*) from wakeful.imports") == 3


def test_identity_and_generated_columns_come_back(db: Session, wakeful: Commands) -> None:
    db.execute(shapes.LITEVAULT)
    db.execute("alter table enrichment_outbox add column shout text generated always as (upper(status)) stored")
    db.execute("insert into enrichment_outbox (item_id) values (gen_random_uuid())")
    before = query(db, "select * from enrichment_outbox")
    wakeful.json("import", "litevault")
    assert wakeful.json("import", "litevault", "--back")["moved"] == 1
    assert query(db, "select * from enrichment_outbox") == before


def test_an_operator_needs_no_more_than_its_role_and_the_table(table: Session, database: Database) -> None:
    """The rows are read under the caller's own rights: the schema's functions never touch a foreign table."""
    table.execute(FILL, [1, 2])
    name = f"wakeful_test_mover_{os.getpid()}"
    table.execute(f"create role {name} in role wakeful_operator".encode())
    try:
        dsn = psycopg.conninfo.make_conninfo(database.dsn, options=f"-c role={name}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege), importer(dsn, find_mapping("implicate", {})) as work:
            work.run()
        table.execute(f"grant select, update, delete on jobs to {name}".encode())
        with importer(dsn, find_mapping("implicate", {})) as work:
            assert work.run().moved == 2
    finally:
        table.execute(f"drop owned by {name}; drop role {name}".encode())
