"""Going back and forth loses nobody's jobs."""

from __future__ import annotations

from difflib import unified_diff
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.upgrade.catalogue import catalogue
from wakeful.database.migrations import check_compatible, down, up
from wakeful.testing import Database
from wakeful.values.errors import SchemaMismatch

Jobs = dict[UUID, dict[str, Any]]

# What holds for a job while it is at rest; a running one gives its worker and its lease up on the way.
KEPT = (
    *("task", "queue", "priority", "payload", "result", "attempt", "max_attempts", "epoch", "run_at"),
    *("created_at", "finished_at", "tenant", "correlation_id", "parent_id", "created_by", "dedup_key"),
    *("metadata", "expires_at", "last_error_code", "last_error_message", "attempts"),
)


def test_the_schema_is_the_same_after_down_and_up(blank_database: Database) -> None:
    with blank_database.connect() as conn:
        up(conn)
        before = catalogue(conn)
        down(conn, 0)
        with pytest.raises(SchemaMismatch, match="wakeful migrate up"):
            check_compatible(conn)
        up(conn)
        difference = list(unified_diff(before, catalogue(conn), "first", "again", lineterm="", n=1))
        assert not difference, "\n".join(difference)


def test_nothing_of_ours_is_left_after_down_where_there_were_no_jobs(blank_database: Database) -> None:
    with blank_database.connect() as conn:
        up(conn)
        down(conn, 0)
        left = conn.execute("select nspname from pg_namespace where nspname = 'wakeful'").fetchall()
        assert left == []


def test_jobs_in_every_state_survive_down_and_up(database: Database) -> None:
    with database.connect() as conn:
        fill(conn)
        before, audits = jobs(conn), count(conn, "audits")
        assert {job["state"] for job in before.values()} == {
            *("scheduled", "ready", "running", "completed", "cancelled", "dead")
        }
        down(conn, 0)
        up(conn)
        after = jobs(conn)
        assert count(conn, "audits") == audits
    assert after.keys() == before.keys()
    for id, job in before.items():
        assert {name: after[id][name] for name in KEPT} == {name: job[name] for name in KEPT}
        resting = "ready" if job["state"] == "running" else job["state"]
        assert after[id]["state"] == resting


def test_schedules_survive_down_and_up(database: Database) -> None:
    with database.connect() as conn:
        conn.execute("select wakeful.add_schedule('nightly', 'tidy', cron => '0 3 * * *', tz => 'Europe/Helsinki')")
        conn.execute("select wakeful.pause_schedule('nightly', reason => 'later')")
        before = conn.execute("select to_jsonb(s) from wakeful.schedule s").fetchall()
        down(conn, 0)
        up(conn)
        assert conn.execute("select to_jsonb(s) from wakeful.schedule s").fetchall() == before


def test_a_claim_from_before_is_refused_afterwards(database: Database) -> None:
    with database.connect() as conn:
        worker = uuid4()
        conn.execute("select wakeful.enqueue('mail')")
        claimed = conn.execute("select id, epoch from wakeful.claim(%s)", [worker]).fetchone()
        assert claimed
        down(conn, 0)
        up(conn)
        with pytest.raises(psycopg.Error) as caught:
            conn.execute("select wakeful.complete(%s, %s, %s)", [*claimed, worker])
        assert caught.value.sqlstate == "WF001"
        again = conn.execute("select id, epoch, attempt from wakeful.claim(%s)", [uuid4()]).fetchone()
        assert again
        assert again[0] == claimed[0]
        assert again[1] > claimed[1]


def test_a_second_round_keeps_what_came_in_between(database: Database) -> None:
    with database.connect() as conn:
        for _ in range(3):
            conn.execute("select wakeful.enqueue('mail')")
            down(conn, 0)
            up(conn)
        assert count(conn, "jobs") == 3


def fill(conn: psycopg.Connection[Any]) -> None:
    """A job in each state, with everything set that can be set."""
    conn.execute(
        """
        select wakeful.enqueue('later', '{"n": 1}', delay => '1 hour', queue => 'slow', priority => 7,
            tenant => 'acme', dedup_key => 'k', created_by => 'ann', metadata => '{"tag": "x"}',
            max_attempts => 9, expires_at => wakeful.now() + interval '1 day', parent_id => wakeful.new_id());
        """
    )
    for task in ("run", "finish", "die", "retry"):
        conn.execute("select wakeful.enqueue(%s, '{\"ü\": [null, 1.5]}')", [task])
    cancelled = conn.execute("select wakeful.enqueue('stop')").fetchone()
    assert cancelled
    conn.execute("select wakeful.cancel(%s, 'no more')", [cancelled[0]])
    worker = uuid4()
    for id, task, epoch in conn.execute("select id, task, epoch from wakeful.claim(%s, want => 9)", [worker]):
        fence = [id, epoch, worker]
        if task == "finish":
            conn.execute("select wakeful.complete(%s, %s, %s, '{\"ok\": true}')", fence)
        elif task != "run":
            final = task == "die"
            conn.execute("select wakeful.fail(%s, %s, %s, 'Boom', 'it broke', no_retry => %s)", [*fence, final])
    conn.execute("select wakeful.enqueue('wait')")


def jobs(conn: psycopg.Connection[Any]) -> Jobs:
    with conn.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        return {row["id"]: row for row in cursor.execute("select * from wakeful.jobs").fetchall()}


def count(conn: psycopg.Connection[Any], view: str) -> int:
    query = psycopg.sql.SQL("select count(*) from wakeful.{}").format(psycopg.sql.Identifier(view))
    found = conn.execute(query).fetchone()
    assert found
    return int(found[0])
