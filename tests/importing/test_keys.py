"""Tables are read as they are: keys of every length, values that no job can have, keys that are no use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.commands import Commands
from tests.sessions import Session, query, scalar

MAPPING = """
table = "public.jobs"
key = "id"
[states]
waiting = ["new"]
[columns]
state = "status"
task = "kind"
payload = "payload"
run_at = "due"
priority = "rank"
"""

TABLE = """
create table jobs (
    id {key} primary key, kind char(8) not null default 'mail', payload {payload} not null default '{{}}',
    status char(10) not null default 'new', due timestamp(3), rank numeric(4, 0))
"""


@pytest.fixture
def mapping(tmp_path: Path) -> str:
    written = tmp_path / "jobs.toml"
    written.write_text(MAPPING)
    return str(written)


def make(db: Session, key: str, payload: str = "jsonb") -> None:
    db.execute(TABLE.format(key=key, payload=payload).encode())


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("char(36)", "md5(n::text)"),
        ("char(3)", "n::text"),
        ("varchar(40)", "'key ' || n"),
        ("numeric(10, 2)", "n + 0.25"),
        ("bit(8)", "n::bit(8)"),
        ("timestamp(3)", "timestamp '2026-03-01' + n * interval '1.5 milliseconds'"),
        ("timestamptz(0)", "timestamptz '2026-03-01+00' + n * interval '1 hour'"),
    ],
)
def test_keys_with_a_length_move_once_and_go_back(
    db: Session, wakeful: Commands, mapping: str, kind: str, keys: str
) -> None:
    make(db, kind)
    db.execute(f"insert into jobs (id, due, rank) select {keys}, '2026-01-01', 7 from generate_series(1, 7) n".encode())
    before = query(db, "select * from jobs order by id")
    told = wakeful.json("import", mapping, "--batch", "2")
    assert (told["moved"], told["inserted"], told["left"]) == (7, 7, {})
    assert scalar(db, "select count(*) from wakeful.jobs where task = 'mail' and priority = 7") == 7
    assert wakeful.json("import", mapping, "--back", "--batch", "3")["moved"] == 7
    assert query(db, "select * from jobs order by id") == before


def test_keys_that_lead_nowhere_end_in_a_sentence(db: Session, wakeful: Commands, mapping: str) -> None:
    """A float that is shown with fewer digits than it has is behind itself."""
    make(db, "real")
    db.execute("insert into jobs (id) values (1), (2.0000012), (3)")
    name = scalar(db, "select current_database()")
    db.execute(f'alter database "{name}" set extra_float_digits = 0'.encode())
    assert "id of public.jobs leads from 2 back to it" in wakeful.refusal(2, "import", mapping, "--batch", "2")
    assert scalar(db, "select count(*) from wakeful.jobs") == 2
    assert scalar(db, "select count(*) from jobs") == 1


def test_a_row_that_cannot_be_read_is_named_and_passed_over(db: Session, wakeful: Commands, mapping: str) -> None:
    """JSON as text may hold what no text can: it breaks as it is read, before it is a job."""
    make(db, "bigint", "json")
    db.execute("insert into jobs (id, payload) select n, json_build_object('n', n) from generate_series(1, 9) n")
    db.execute(r"""update jobs set payload = '{"n": "\u0000"}' where id in (3, 4)""")
    told = wakeful.json("import", mapping, "--batch", "4", code=1)
    assert [row["key"] for row in told["refused"]] == ["3", "4"]
    assert "unsupported Unicode escape sequence" in told["refused"][0]["problem"]
    assert (told["moved"], told["left"]) == (7, {"new": 2})
