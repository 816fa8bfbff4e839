"""`wakeful jobs …`, `stats` and `cleanup` as processes."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.acceptance.commands import Commands
from tests.sessions import Session, query, scalar, shift_clock
from tests.verbs import claim_one, enqueue, started


def ids(jobs: list[dict[str, object]]) -> list[object]:
    return [job["id"] for job in jobs]


def test_jobs_are_listed_the_newest_first_page_by_page(wakeful: Commands, db: Session) -> None:
    made = [str(enqueue(db, "t", {"n": n})) for n in range(5)]
    assert ids(wakeful.json("jobs", "list")) == made[::-1]
    first = wakeful.run("jobs", "list", "--limit", "2")
    assert [line.split()[0] for line in first.stdout.splitlines()] == ["ID", made[4], made[3]]
    assert first.stderr == f"There may be more: add --after {made[3]}.\n"
    assert ids(wakeful.json("jobs", "list", "--limit", "2", "--after", made[3])) == [made[2], made[1]]
    assert ids(wakeful.json("jobs", "list", "--after", made[0])) == []


def test_filters_choose_jobs_in_every_state(wakeful: Commands, db: Session) -> None:
    done = started(db, "done")
    db.execute("select wakeful.complete(%s, %s, %s)", [done.id, done.epoch, done.worker_id])
    dead = started(db, "dead", payload={"order": {"id": 7}, "tags": ["a", "b"]})
    db.execute(
        "select wakeful.fail(%s, %s, %s, 'E42', 'Disk is full', no_retry => true)",
        [dead.id, dead.epoch, dead.worker_id],
    )
    running = started(db, "running", tenant="acme")
    correlation_id = uuid4()
    later = enqueue(db, "later", delay="1 hour", correlation_id=correlation_id, queue="slow")
    ready = enqueue(db, "ready")

    def found(*options: str) -> set[object]:
        return set(ids(wakeful.json("jobs", "list", *options)))

    every = {"done": done.id, "dead": dead.id, "running": running.id, "later": later, "ready": ready}
    known = {name: str(id) for name, id in every.items()}
    assert found() == set(known.values())
    assert found("--state", "dead") == found("--state", "failed") == {known["dead"]}
    assert found("--state", "pending") == {known["later"], known["ready"]}
    assert found("--state", "completed", "--state", "running") == {known["done"], known["running"]}
    assert found("--task", "done") == {known["done"]}
    assert found("--queue", "slow", "--correlation", str(correlation_id)) == {known["later"]}
    assert found("--tenant", "acme") == {known["running"]}
    assert found("--error", "E42") == found("--error", "disk IS") == {known["dead"]}
    assert found("--payload", '{"order": {"id": 7}}') == {known["dead"]}
    assert found("--since", "1h") == set(known.values())
    assert found("--older-than", "1h") == found("--since", "2126-01-01") == set()
    assert found("--older-than", "2126-01-01", "--task", "ready") == {known["ready"]}


def test_a_job_is_shown_with_its_story(wakeful: Commands, db: Session) -> None:
    held = started(db, "t", payload={"n": 1})
    db.execute(
        "select wakeful.fail(%s, %s, %s, 'E42', 'broke', retry_in => '0')",
        [held.id, held.epoch, held.worker_id],
    )
    shown = wakeful.json("jobs", "show", str(held.id))
    assert (shown["id"], shown["state"], shown["payload"]) == (str(held.id), "ready", {"n": 1})
    assert shown["attempts"][0]["code"] == "E42"
    text = wakeful.text("jobs", "show", str(held.id))
    assert "state" in text
    assert '"n": 1' in text
    assert "failed: E42 broke" in text


def test_jobs_are_cancelled(wakeful: Commands, db: Session) -> None:
    waiting, running = enqueue(db, "a"), started(db, "b")
    told = wakeful.json("jobs", "cancel", str(waiting), str(running.id), "--reason", "no need")
    assert told == [
        {"id": str(waiting), "answer": "cancelled"},
        {"id": str(running.id), "answer": "requested"},
    ]
    assert scalar(db, "select cancel_reason from wakeful.jobs where id = %s", waiting) == "no need"
    assert scalar(db, "select actor from wakeful.audits where job_id = %s", waiting) == "tester"
    unknown = uuid4()
    ran = wakeful.run("jobs", "cancel", str(waiting), str(unknown))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.splitlines() == [
        f"wakeful: Job {waiting} is over, so there is nothing to cancel.",
        f"wakeful: There is no job {unknown}. Check the id with `wakeful jobs list`.",
    ]


def test_one_refused_job_does_not_keep_the_others_from_being_done(wakeful: Commands, db: Session) -> None:
    good, bad = enqueue(db), uuid4()
    told = wakeful.json("jobs", "cancel", str(bad), str(good), code=1)
    assert "error" in told[0]
    assert told[1] == {"id": str(good), "answer": "cancelled"}


def test_jobs_are_retried_wherever_they_are(wakeful: Commands, db: Session) -> None:
    later = enqueue(db, "later", delay="1 hour")
    assert wakeful.text("jobs", "retry", str(later)) == f"{later}  ready\n"
    assert scalar(db, "select state from wakeful.jobs where id = %s", later) == "ready"
    dead = started(db, "dead")
    db.execute("select wakeful.fail(%s, %s, %s, 'x', 'x', no_retry => true)", [dead.id, dead.epoch, dead.worker_id])
    [told] = wakeful.json("jobs", "retry", str(dead.id))
    assert told["answer"] == "requeued"
    assert str(claim_one(db, tasks=["dead"]).id) == told["as"]
    nobody = uuid4()
    told = wakeful.refusal(1, "jobs", "retry", str(nobody))
    assert told == f"wakeful: There is no job {nobody}. Check the id with `wakeful jobs list`.\n"


def test_a_waiting_job_is_buried_and_a_running_one_is_not(wakeful: Commands, db: Session) -> None:
    waiting, running = enqueue(db, "a"), started(db, "b")
    assert wakeful.text("jobs", "bury", str(waiting), "--reason", "poison") == f"{waiting}  buried\n"
    [letter] = query(db, "select * from wakeful.dead_letters")
    assert (letter["id"], letter["error_message"]) == (waiting, "poison")
    assert "is running" in wakeful.refusal(1, "jobs", "bury", str(running.id))


def test_stats_are_counted_for_people_and_programs(wakeful: Commands, db: Session) -> None:
    enqueue(db, "a")
    enqueue(db, "a", delay="1 hour")
    started(db, "b")
    counts = {"pending": 2, "processing": 1, "completed": 0, "failed": 0, "cancelled": 0, "total": 3}
    assert wakeful.json("stats") == counts
    assert wakeful.json("stats", "--task", "b")["total"] == 1
    assert "pending     2 (1 ready, 1 scheduled)\n" in wakeful.text("stats")


def test_clean_up_removes_what_is_old(wakeful: Commands, db: Session) -> None:
    held = started(db)
    db.execute("select wakeful.complete(%s, %s, %s)", [held.id, held.epoch, held.worker_id])
    assert wakeful.json("cleanup") == {"removed": 0}
    shift_clock(db, "8 days")
    assert wakeful.text("cleanup", "--days", "7", "--status", "completed", "--yes") == "1 job removed.\n"
    assert scalar(db, "select count(*) from wakeful.jobs") == 0
    for word in ("ready", "foo"):
        told = wakeful.refusal(2, "cleanup", "--status", word)
        assert f"--status is '{word}', which is not final: use completed, failed or cancelled." in told


def test_a_person_at_a_terminal_is_asked_before_jobs_are_removed(wakeful: Commands, db: Session) -> None:
    held = started(db)
    db.execute("select wakeful.complete(%s, %s, %s)", [held.id, held.epoch, held.worker_id])
    code, screen = wakeful.terminal("cleanup", "--days", "0", typed="n\n")
    assert code == 1
    assert "Remove completed jobs that are older than 0 days? [y/N]" in screen
    assert scalar(db, "select count(*) from wakeful.jobs") == 1
    code, screen = wakeful.terminal("cleanup", "--days", "0", typed="y\n")
    assert code == 0
    assert screen.endswith("1 job removed.\n")


@pytest.mark.parametrize("columns", [80, 120])
def test_a_table_fits_the_terminal_and_ids_can_be_copied(wakeful: Commands, db: Session, columns: int) -> None:
    task = "a.task.with.a.rather.long.name.that.someone.thought.was.a.good.idea"
    held = started(db, task)
    db.execute(
        "select wakeful.fail(%s, %s, %s, 'E42', %s)",
        [held.id, held.epoch, held.worker_id, "an endless message with \x1b[31mcolours " * 20],
    )
    code, screen = wakeful.terminal("jobs", "list", columns=columns)
    assert code == 0
    lines = screen.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert max(map(len, lines)) <= columns
    assert "\x1b[31m" not in screen
    assert str(held.id) in screen
    wide = wakeful.text("jobs", "list")
    assert task in wide
    assert "\x1b" not in wide


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["list", "--state", "sleeping"], "'sleeping', which is no state of a job"),
        (["list", "--since", "yesterday"], "neither an age"),
        (["list", "--payload", "{"], "--payload is not JSON"),
        (["list", "--correlation", "7"], "not a valid UUID"),
        (["list", "--limit", "0"], "--limit"),
        (["list", "--after", "x"], "not a valid UUID"),
        (["show", "x"], "not a valid UUID"),
        (["show"], "Missing argument 'ID'"),
        (["cancel"], "Say which: IDs, a filter"),
        (["cancel", "x"], "not a valid UUID"),
        (["lsit"], "No such command 'lsit'"),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(wakeful: Commands, arguments: list[str], told: str) -> None:
    assert told in wakeful.refusal(2, "jobs", *arguments)


def test_an_unknown_id_is_not_found(wakeful: Commands) -> None:
    told = wakeful.refusal(1, "jobs", "show", str(uuid4()))
    assert "There is no job" in told
    assert "`wakeful jobs list`" in told


@pytest.mark.parametrize("at", ["infinity", "-infinity", "20000-01-01", "0044-03-15 BC", "9999-12-31 23:59:59-12"])
def test_a_time_that_no_calendar_has_breaks_no_list(wakeful: Commands, db: Session, at: str) -> None:
    odd, held = str(enqueue(db, "odd", delay="1 hour")), started(db, "held")
    db.execute("update wakeful.job set run_at = %s, expires_at = %s", [at, at])
    db.execute("update wakeful.job set lease_expires_at = %s where state = 2", [at])
    assert ids(wakeful.json("jobs", "list")) == [str(held.id), odd]
    assert wakeful.text("jobs", "list")
    for id in (odd, str(held.id)):
        assert wakeful.json("jobs", "show", id)["id"] == id
        assert wakeful.text("jobs", "show", id)
        assert wakeful.text("explain", id)
    letter = started(db, "letter")
    db.execute("update wakeful.job set run_at = %s, expires_at = %s where id = %s", [at, at, letter.id])
    db.execute(
        "select wakeful.fail(%s, %s, %s, 'c', 'm', no_retry => true)", [letter.id, letter.epoch, letter.worker_id]
    )
    assert str(letter.id) in ids(wakeful.json("jobs", "list"))
    assert wakeful.text("dead", "requeue", str(letter.id))


def test_a_moment_that_leads_out_of_the_calendar_is_told_in_a_sentence(wakeful: Commands) -> None:
    for option in (("jobs", "list", "--since"), ("enqueue", "t", "--run-at")):
        refused = wakeful.run(*option, "9999-12-31T23:59:59-23:00")
        assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
