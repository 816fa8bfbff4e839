"""`wakeful enqueue` as a process."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from tests.acceptance.commands import Commands
from tests.sessions import Session, query, scalar, session
from wakeful.testing import Database


def test_a_job_is_enqueued_and_its_id_printed(wakeful: Commands, db: Session) -> None:
    id = wakeful.text("enqueue", "mail.send", '{"to": "a@b.c"}').strip()
    [row] = query(db, "select * from wakeful.jobs")
    assert (str(row["id"]), row["task"], row["payload"]) == (id, "mail.send", {"to": "a@b.c"})
    assert row["queue"] == "default"


def test_every_option_reaches_the_job(wakeful: Commands, db: Session) -> None:
    id, correlation_id, parent_id = uuid4(), uuid4(), uuid4()
    told = wakeful.json(
        *("enqueue", "t", "--id", str(id), "--queue", "mail", "--priority", "-7", "--delay", "1h30m"),
        *("--max-attempts", "3", "--dedup-key", "k", "--tenant", "acme", "--created-by", "me"),
        *("--correlation-id", str(correlation_id), "--parent-id", str(parent_id)),
        *("--expires-at", "2126-01-01T00:00Z"),
    )
    assert told == {"id": str(id), "action": "inserted"}
    [row] = query(db, "select *, run_at - created_at as delay from wakeful.jobs")
    assert (row["id"], row["queue"], row["priority"], row["max_attempts"]) == (id, "mail", -7, 3)
    assert (row["delay"], row["state"], row["payload"]) == (timedelta(minutes=90), "scheduled", {})
    assert (row["dedup_key"], row["tenant"], row["created_by"]) == ("k", "acme", "me")
    assert (row["correlation_id"], row["parent_id"], row["expires_at"].year) == (correlation_id, parent_id, 2126)


def test_the_payload_comes_from_a_file_or_from_standard_input(wakeful: Commands, db: Session, tmp_path: Path) -> None:
    path = tmp_path / "päyload.json"
    path.write_text('{"n": 1, "text": "naïve ☃"}', "utf-8")
    wakeful.text("enqueue", "t", f"@{path}")
    wakeful.text("enqueue", "t", "-", stdin='{"n": 2}\n')
    payloads = query(db, "select payload from wakeful.jobs order by id")
    assert [row["payload"] for row in payloads] == [{"n": 1, "text": "naïve ☃"}, {"n": 2}]


def test_a_second_job_with_the_same_dedup_key_or_id_is_told(wakeful: Commands, db: Session) -> None:
    first = wakeful.json("enqueue", "t", "--dedup-key", "k")
    again = wakeful.run("enqueue", "t", "--dedup-key", "k")
    assert (again.returncode, again.stdout.strip()) == (0, first["id"])
    assert again.stderr == "No new job was made: a live job has this dedup key.\n"
    assert wakeful.json("enqueue", "t", "--id", first["id"])["action"] == "resent"
    told = wakeful.refusal(1, "enqueue", "t", "--dedup-key", "k", "--dedup", "raise")
    assert "dedup_key k" in told
    assert scalar(db, "select count(*) from wakeful.jobs") == 1


def test_a_task_that_is_switched_off_makes_no_job(wakeful: Commands, db: Session) -> None:
    db.execute("select wakeful.switch_task('t', false)")
    ran = wakeful.run("enqueue", "t", "--json")
    assert (ran.returncode, ran.stdout) == (1, '{"id": null, "action": "off"}\n')
    assert "wakeful: Enqueuing of t is off. " in ran.stderr
    assert scalar(db, "select count(*) from wakeful.jobs") == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["t", '{"a": 1'], "The payload is not JSON: expecting ',' delimiter at line 1, column 8."),
        (["t", '{"a":\n nope}'], "line 2, column 2"),
        (["t", '{"a": NaN}'], "holds NaN"),
        (["t", "[1]"], "The payload is an array: give a JSON object"),
        (["t", "@/nowhere/at/all"], "'/nowhere/at/all' cannot be read (No such file or directory)"),
        (["t", '{"a": "b\\u0000"}'], "Payload field `a` contains a NUL"),
        (["t t"], "white space"),
        (["t", "--priority", "200"], "200 is not in the range"),
        (["t", "--delay", "soonish"], "delay is 'soonish'"),
        (["t", "--run-at", "5m"], "'5m' is no moment such as 2026-01-31T08:00. A wait is given as --delay."),
        (["t", "--expires-at", "5m"], "'--expires-at': '5m' is no moment such as 2026-01-31T08:00. See"),
        (["t", "--expires-at", "2001-01-01T00:00Z"], "expires_at lies in the past (2001-01-01 "),
        (["t", f'{{"a": {"7" * 5000}}}'], "The payload holds an integer of more than 4300 digits: send it as text."),
        (["t", "--delay", "1h", "--run-at", "2126-01-01"], "give one of them"),
        (["t", "--dedup", "skip"], "dedup"),
        (["t", "--id", "nonsense"], "'nonsense' is not a valid UUID"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(wakeful: Commands, arguments: list[str], told: str) -> None:
    assert told in wakeful.refusal(2, "enqueue", *arguments)


def test_a_user_without_rights_is_told_whom_to_ask(database: Database) -> None:
    role = f"stranger_{uuid4().hex[:8]}"
    with session(database.dsn) as owner:
        owner.execute(f"create role {role} login password 'x'")
        try:
            stranger = Commands(f"{database.dsn} user={role} password=x")
            for role_needed, command in (
                ("wakeful_producer", ["enqueue", "t"]),
                ("wakeful_viewer", ["jobs", "list"]),
                ("wakeful_viewer", ["stats"]),
                ("wakeful_viewer", ["queues", "list"]),
                ("wakeful_operator", ["cleanup"]),
                ("wakeful_worker", ["worker", "tests.worker.apps:app"]),
                ("wakeful_worker", ["worker", "tests.worker.apps:app", "--once"]),
            ):
                told = stranger.refusal(1, *command)
                assert "permission denied" in told.lower()
                assert f"Ask the database's owner to `grant {role_needed} to` your role." in told
            owner.execute(f"grant wakeful_viewer to {role}")
            stranger.text("jobs", "list")
            assert "grant wakeful_operator to" in stranger.refusal(1, "cleanup")
            assert "grant wakeful_producer to" in stranger.refusal(1, "enqueue", "t")
        finally:
            owner.execute(f"drop owned by {role}")
            owner.execute(f"drop role {role}")


def test_a_job_sent_again_after_it_expired_is_still_the_same(wakeful: Commands, db: Session) -> None:
    made = wakeful.json("enqueue", "t", "--expires-at", "2126-01-01")
    again = wakeful.json("enqueue", "t", "--expires-at", "2001-01-01", "--id", made["id"])
    assert again == {"id": made["id"], "action": "resent"}
