"""What goes back is lost nowhere: a job that is not its source's alone, or not what it was, stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg.types.json import Jsonb

from tests.acceptance.commands import Commands
from tests.importing import shapes
from tests.sessions import Session, background, query, scalar, sessions, shift_clock, wait_until_blocked
from wakeful.testing import Database

MAPPING = """
table = "public.{table}"
key = "id"
[states]
waiting = ["new"]
[columns]
state = "status"
task = "kind"
payload = "payload"
run_at = "due"
dedup_key = "twin"
"""

TABLE = """
create table {table} (
    id bigint primary key, kind text not null default 'mail', payload jsonb not null default '{{}}',
    status text not null default 'new', due timestamptz, twin text)
"""

Mapped = Callable[[str], str]


@pytest.fixture
def mapped(db: Session, tmp_path: Path) -> Mapped:
    """Makes a table, and the mapping of it."""

    def make(table: str) -> str:
        db.execute(TABLE.format(table=table).encode())
        written = tmp_path / f"{table}.toml"
        written.write_text(MAPPING.format(table=table))
        return str(written)

    return make


def test_a_job_that_another_source_has_joined_stays(db: Session, wakeful: Commands, mapped: Mapped) -> None:
    ours, theirs = mapped("ours"), mapped("theirs")
    db.execute("insert into ours (id, twin) values (1, 'k'), (2, null)")
    db.execute("insert into theirs (id, twin) values (9, 'k')")
    wakeful.json("import", ours)
    assert wakeful.json("import", theirs)["joined"] == 1
    told = wakeful.json("import", ours, "--back")
    assert (told["moved"], told["kept"]) == (1, {"shared": 1})
    assert query(db, "select id from ours") == [{"id": 2}]
    assert scalar(db, "select count(*) from wakeful.jobs where state = 'ready' and dedup_key = 'k'") == 1
    assert wakeful.json("import", theirs, "--back")["kept"] == {"joined": 1}
    assert "Kept here: 1 joined by rows of another source." in wakeful.text("import", ours, "--back")


def test_a_row_that_joins_while_its_job_goes_back_is_waited_for(db: Session, database: Database) -> None:
    row = {"key": "1", "state": "waiting", "task": "mail", "dedup_key": "k"}
    bring = "select action from wakeful.import_rows(%s, %s)"
    query(db, bring, "ours", Jsonb([row]))
    with sessions(database.dsn, 2) as [theirs, back], background() as do:
        with theirs.transaction():
            assert query(theirs, bring, "theirs", Jsonb([row])) == [{"action": "joined"}]
            going = do(query, back, "select legacy_key from wakeful.return_rows('ours', 10)")
            wait_until_blocked(db, back, going)
        assert going.result() == []
    assert scalar(db, "select state from wakeful.jobs") == "ready"


def test_rows_of_one_source_that_share_a_job_go_back_together(db: Session, wakeful: Commands, mapped: Mapped) -> None:
    ours = mapped("ours")
    db.execute("insert into ours (id, twin) values (1, 'k'), (2, 'k'), (3, 'k')")
    wakeful.json("import", ours)
    told = wakeful.json("import", ours, "--back")
    assert (told["moved"], told["kept"], told["left"]) == (3, {}, {"new": 3})


@pytest.mark.parametrize("dedup", ["replace", "debounce"])
def test_a_job_that_was_changed_since_stays(db: Session, wakeful: Commands, mapped: Mapped, dedup: str) -> None:
    ours = mapped("ours")
    db.execute("insert into ours (id, twin, payload) values (1, 'k', '{\"n\": 1}'), (2, 'l', '{}')")
    wakeful.json("import", ours)
    db.execute("select wakeful.enqueue('mail', '{\"n\": 2}', dedup_key => 'k', dedup => %s)", [dedup])
    told = wakeful.json("import", ours, "--back")
    assert (told["moved"], told["kept"]) == (1, {"changed": 1})
    assert query(db, "select id from ours") == [{"id": 2}]
    expected = {"n": 2 if dedup == "replace" else 1}
    assert query(db, "select payload from wakeful.jobs where state = 'ready'") == [{"payload": expected}]


def test_a_job_whose_moment_has_come_is_not_changed_by_that(db: Session, wakeful: Commands, mapped: Mapped) -> None:
    ours = mapped("ours")
    db.execute("insert into ours (id, due) values (1, clock_timestamp() + interval '1 hour')")
    wakeful.json("import", ours)
    shift_clock(db, "2 hours")
    assert scalar(db, "select wakeful.promote('{default}', '{mail}')") == 1
    assert wakeful.json("import", ours, "--back")["moved"] == 1


def test_a_key_that_is_in_use_again_is_named_and_its_job_stays(db: Session, wakeful: Commands, mapped: Mapped) -> None:
    ours = mapped("ours")
    db.execute("insert into ours (id) select generate_series(1, 9)")
    wakeful.json("import", ours)
    db.execute("insert into ours (id) values (3), (7)")
    told = wakeful.json("import", ours, "--back", "--batch", "4", code=1)
    assert (told["moved"], [row["key"] for row in told["refused"]]) == (7, ["3", "7"])
    assert "duplicate key" in told["refused"][0]["problem"]
    assert told["left"] == {"new": 9}
    keys = "select i.legacy_key from wakeful.imports i join wakeful.jobs j on j.id = i.job_id where j.state = 'ready'"
    assert [row["legacy_key"] for row in query(db, f"{keys} order by 1")] == ["3", "7"]
    db.execute("delete from ours where id in (3, 7)")
    assert wakeful.json("import", ours, "--back")["moved"] == 2


def test_a_marked_row_that_has_gone_keeps_its_job(db: Session, wakeful: Commands) -> None:
    db.execute(shapes.LIPAS)
    db.execute("insert into jobs (id, type, payload) values (1, 'email', '{}'), (2, 'email', '{}')")
    wakeful.json("import", "lipas")
    db.execute("delete from jobs where id = 1")
    told = wakeful.json("import", "lipas", "--back", code=1)
    assert (told["moved"], [row["key"] for row in told["refused"]]) == (1, ["1"])
    assert scalar(db, "select count(*) from wakeful.jobs where state = 'ready'") == 1
