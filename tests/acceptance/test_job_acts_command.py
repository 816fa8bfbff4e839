"""`wakeful jobs cancel|retry|bury` by filter, as processes."""

from __future__ import annotations

from tests.acceptance.commands import Commands
from tests.sessions import Session, query, scalar
from tests.verbs import enqueue, started


def states(db: Session, task: str) -> list[str]:
    return [row["state"] for row in query(db, "select state from wakeful.jobs where task = %s order by id", task)]


def test_what_a_filter_means_is_counted_and_asked_about_first(wakeful: Commands, db: Session) -> None:
    for n in range(3):
        enqueue(db, "a", {"n": n})
    enqueue(db, "b")
    told = wakeful.refusal(2, "jobs", "cancel", "--task", "a")
    assert "Cancel 3 jobs? Nobody is there to ask: add --yes." in told
    code, screen = wakeful.terminal("jobs", "cancel", "--task", "a", typed="n\n")
    assert code == 1
    assert "Cancel 3 jobs?" in screen
    assert states(db, "a") == ["ready"] * 3
    assert wakeful.text("jobs", "cancel", "--task", "a", "--payload", '{"n": 1}', "--yes") == "1 job cancelled.\n"
    assert states(db, "a") == ["ready", "cancelled", "ready"]


def test_a_filter_cancels_what_waits_and_what_runs_and_notes_who_did_it(wakeful: Commands, db: Session) -> None:
    waiting = [enqueue(db, "a") for _ in range(2)]
    running = started(db, "runs", tenant="acme")
    enqueue(db, "runs", delay="1 hour")
    told = wakeful.json("jobs", "cancel", "--all", "--reason", "wrong deploy", "--yes")
    assert told == {"cancelled": 3, "requested": 1, "busy": 0}
    noted = query(db, "select job_id, actor, details ->> 'reason' as reason from wakeful.audits where act = 'cancel'")
    assert {row["job_id"] for row in noted} >= {*waiting, running.id}
    assert {(row["actor"], row["reason"]) for row in noted} == {("tester", "wrong deploy")}
    assert wakeful.text("jobs", "cancel", "--task", "nothing", "--yes") == "No job is meant.\n"


def test_many_are_cancelled_page_by_page(wakeful: Commands, db: Session) -> None:
    db.execute("select wakeful.enqueue('a', '{}') from generate_series(1, 450)")
    assert wakeful.json("jobs", "cancel", "--task", "a", "--yes")["cancelled"] == 450
    assert scalar(db, "select count(*) from wakeful.job") == 0


def test_a_row_that_is_held_is_told_of_and_stops_no_other(wakeful: Commands, db: Session) -> None:
    free, held = enqueue(db, "a"), enqueue(db, "a")
    with db.transaction():
        db.execute("select from wakeful.job where id = %s for update", [held])
        told = wakeful.json("jobs", "cancel", "--task", "a", "--yes", code=1)
    assert told == {"cancelled": 1, "busy": 1}
    assert scalar(db, "select state from wakeful.jobs where id = %s", free) == "cancelled"


def test_a_filter_hurries_what_is_scheduled(wakeful: Commands, db: Session) -> None:
    for _ in range(2):
        enqueue(db, "a", delay="1 hour")
    enqueue(db, "a")
    assert wakeful.json("jobs", "retry", "--task", "a", "--yes") == {"made_ready": 2}
    assert states(db, "a") == ["ready"] * 3
    assert scalar(db, "select count(*) from wakeful.audits where act = 'retry_now'") == 2


def test_what_is_over_is_put_back_only_when_it_is_named(wakeful: Commands, db: Session) -> None:
    done = started(db, "a")
    db.execute("select wakeful.complete(%s, %s, %s)", [done.id, done.epoch, done.worker_id])
    assert wakeful.text("jobs", "retry", "--task", "a", "--yes") == "No job is meant.\n"
    assert wakeful.json("jobs", "retry", "--task", "a", "--state", "completed", "--yes") == {"requeued": 1}
    assert states(db, "a") == ["completed", "ready"]
    assert "dead ones by `wakeful dead requeue`" in wakeful.refusal(2, "jobs", "retry", "--state", "dead", "--yes")


def test_a_filter_buries_what_waits(wakeful: Commands, db: Session) -> None:
    running = started(db, "a")
    enqueue(db, "a")
    enqueue(db, "a", delay="1 hour")
    assert wakeful.json("jobs", "bury", "--task", "a", "--reason", "poison", "--yes") == {"buried": 2}
    assert query(db, "select distinct error_message from wakeful.dead_letters") == [{"error_message": "poison"}]
    assert scalar(db, "select state from wakeful.jobs where id = %s", running.id) == "running"
    assert "cancel what runs" in wakeful.refusal(2, "jobs", "bury", "--state", "running", "--yes")


def test_ids_a_filter_and_all_exclude_each_other(wakeful: Commands, db: Session) -> None:
    id = str(enqueue(db, "a"))
    for chosen in ((), (id, "--task", "a"), ("--task", "a", "--all"), (id, "--all")):
        told = wakeful.refusal(2, "jobs", "cancel", *chosen, "--yes")
        assert "Say which: IDs, a filter such as --task, or --all; one of the three." in told
    assert "What is over stays over" in wakeful.refusal(2, "jobs", "cancel", "--state", "completed", "--yes")
