"""`stats`, `fold_tally` and `cleanup`: counts that are exact, and stay so while history is removed."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.sessions import INVALID, Session, call, query, refusal, scalar, shift_clock, value
from tests.verbs import complete, enqueue, fail, settle, started, stats

FINAL = ("completed", "cancelled", "dead")


def counted(db: Session) -> dict[str, int]:
    """The same counts the slow way, from the rows themselves."""
    rows = query(db, "select state, count(*) as jobs from wakeful.jobs group by state")
    return {row["state"]: row["jobs"] for row in rows}


def some_of_each(db: Session, task: str = "t") -> None:
    worker = uuid4()
    enqueue(db, task, delay="1 hour")
    enqueue(db, task)
    value(db, "cancel", id=enqueue(db, task))
    call(db, "bury", id=enqueue(db, task), reason="why")
    held = [started(db, task, worker=worker, priority=9, lease="1 year") for _ in range(4)]
    complete(db, held[0])
    fail(db, held[1], no_retry=True)
    settle(db, worker, [(held[2].id, held[2].epoch, "cancelled", None)])


def test_every_state_is_counted_for_all_or_for_one_task(db: Session) -> None:
    some_of_each(db, "a")
    some_of_each(db, "b")
    one = {"scheduled": 1, "ready": 1, "running": 1, "completed": 1, "dead": 2, "cancelled": 2}
    assert stats(db, "a") == stats(db, "b") == one
    assert stats(db) == {state: 2 * jobs for state, jobs in one.items()} == counted(db)
    assert stats(db, "unknown") == {}


def test_folding_changes_no_count(db: Session) -> None:
    some_of_each(db)
    before = stats(db)
    assert value(db, "fold_tally") == 3
    assert stats(db) == before
    assert query(db, "select from wakeful.tally_delta") == []
    some_of_each(db)
    assert value(db, "fold_tally") == 3
    assert value(db, "fold_tally") == 0
    assert stats(db) == counted(db)


def test_one_folds_at_a_time_and_the_others_do_not_wait(db: Session, other: Session) -> None:
    some_of_each(db)
    with other.transaction():
        assert value(other, "fold_tally") == 3
        some_of_each(db)
        assert value(db, "fold_tally") == 0
        assert stats(db) == counted(db)
    assert stats(db) == counted(db)


@pytest.mark.parametrize("state", FINAL)
def test_cleanup_removes_what_it_says_and_the_counts_follow(db: Session, state: str) -> None:
    some_of_each(db)
    value(db, "fold_tally")
    for letter in query(db, "select id from wakeful.dead_letters"):
        value(db, "acknowledge", id=letter["id"])
    shift_clock(db, "2 days")
    some_of_each(db)
    before = counted(db)
    removed = value(db, "cleanup", state=state, keep="1 day")
    assert removed == before[state] / 2
    assert counted(db) == {**before, state: before[state] - removed}
    assert stats(db) == counted(db)
    value(db, "fold_tally")
    assert stats(db) == counted(db)
    assert value(db, "cleanup", state=state, keep="1 day") == 0


def test_cleanup_goes_by_parts(db: Session) -> None:
    for _ in range(5):
        complete(db, started(db))
    shift_clock(db, "1 minute")
    assert [value(db, "cleanup", state="completed", keep="0", most=2) for _ in range(4)] == [2, 2, 1, 0]
    assert stats(db) == {}


def test_an_unacknowledged_dead_letter_is_never_cleaned_up(db: Session) -> None:
    fail(db, started(db), no_retry=True)
    shift_clock(db, "10 years")
    assert value(db, "cleanup", state="dead", keep="0") == 0
    assert stats(db) == {"dead": 1}


def test_cleanup_does_not_wait_for_rows_that_someone_holds(db: Session, other: Session) -> None:
    held = [started(db) for _ in range(2)]
    for one in held:
        complete(db, one)
    shift_clock(db, "1 minute")
    with other.transaction():
        query(other, "select from wakeful.finished_job where id = %s for update", held[0].id)
        assert value(db, "cleanup", state="completed", keep="0") == 1
    assert value(db, "cleanup", state="completed", keep="0") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"state": "ready", "keep": "1 day"},
        {"state": None, "keep": "1 day"},
        {"state": "completed", "keep": "-1 day"},
        {"state": "completed", "keep": None},
    ],
)
def test_an_impossible_clean_up_is_refused(db: Session, arguments: dict[str, object]) -> None:
    complete(db, started(db))
    with refusal(INVALID):
        value(db, "cleanup", **arguments)
    assert stats(db) == {"completed": 1}


def test_a_clean_up_is_audited(db: Session) -> None:
    complete(db, started(db))
    shift_clock(db, "1 minute")
    value(db, "cleanup", state="completed", keep="0", actor="ann")
    value(db, "cleanup", state="completed", keep="0", actor="ann")
    [act] = query(db, "select act, actor, details from wakeful.audits")
    assert (act["act"], act["actor"], act["details"]["removed"]) == ("cleanup", "ann", 1)


def test_the_tally_goes_by_utc_day(db: Session) -> None:
    db.execute("set timezone = 'Pacific/Kiritimati'")
    complete(db, started(db))
    value(db, "fold_tally")
    assert scalar(db, "select day = (wakeful.now() at time zone 'UTC')::date from wakeful.tally")
