"""The days of history: made ahead, dropped when old, never in the way of a settlement."""

from __future__ import annotations

import time
from datetime import date, timedelta

import psycopg
import pytest

from tests.sessions import (
    INVALID,
    Session,
    background,
    call,
    query,
    refusal,
    scalar,
    session,
    shift_clock,
    value,
    wait_until_blocked,
)
from tests.verbs import complete, enqueue, fail, job, started, state_of, stats
from wakeful.testing import Database


def days(db: Session) -> list[date]:
    rows = query(
        db,
        "select to_date(right(c.relname, 8), 'YYYYMMDD') as day from pg_inherits i"
        " join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = 'wakeful.finished_job'::regclass and c.relname ~ '[0-9]{8}$' order by 1",
    )
    return [row["day"] for row in rows]


def today(db: Session) -> date:
    found = scalar(db, "select wakeful.day_of(wakeful.now())")
    assert isinstance(found, date)
    return found


def partition_of(db: Session, job_id: object) -> str:
    return str(
        scalar(
            db,
            "select c.relname from wakeful.finished_job f join pg_class c on c.oid = f.tableoid where f.id = %s",
            job_id,
        )
    )


def a_week_from(first: date) -> list[date]:
    return [first + timedelta(days=n) for n in range(8)]


def test_a_week_is_made_ahead_by_the_migration(own: Session) -> None:
    assert days(own) == a_week_from(today(own))
    assert value(own, "make_days") == 0


def test_a_settled_job_goes_to_the_day_of_its_end(own: Session) -> None:
    held = started(own)
    shift_clock(own, "3 days")
    complete(own, held)
    assert partition_of(own, held.id) == f"finished_job_{today(own):%Y%m%d}"


def test_making_days_follows_the_clock_and_asks_for_as_many_as_told(own: Session) -> None:
    shift_clock(own, "2 days")
    assert value(own, "make_days") == 2
    assert value(own, "make_days", ahead=9) == 2
    assert value(own, "make_days", ahead=0) == 0


@pytest.mark.parametrize(
    ("datestyle", "zone"), [("SQL, DMY", "Asia/Kolkata"), ("German", "America/New_York"), ("ISO", "Asia/Tokyo")]
)
def test_the_bounds_are_utc_days_whatever_the_session_thinks_of_dates(own: Session, datestyle: str, zone: str) -> None:
    own.execute("select set_config('datestyle', %s, false), set_config('timezone', %s, false)", [datestyle, zone])
    value(own, "make_days", ahead=9)
    own.execute("set datestyle = 'ISO'")
    own.execute("set timezone = 'UTC'")
    for day in days(own):
        bound = scalar(
            own,
            "select pg_get_expr(c.relpartbound, c.oid) from pg_class c where c.oid = %s::regclass",
            f"wakeful.finished_job_{day:%Y%m%d}",
        )
        assert bound == (f"FOR VALUES FROM ('{day} 00:00:00+00') TO ('{day + timedelta(days=1)} 00:00:00+00')")


def test_what_has_no_day_goes_to_the_default_partition_and_the_settlement_succeeds(own: Session) -> None:
    held = started(own)
    shift_clock(own, "100 days")
    complete(own, held)
    assert partition_of(own, held.id) == "finished_job_default"
    assert state_of(own, held.id) == "completed"
    # That day cannot be made any more, the others can, and nobody is told of an error.
    assert value(own, "make_days") == 7
    following = started(own)
    complete(own, following)
    assert partition_of(own, following.id) == "finished_job_default"
    assert stats(own)["completed"] == 2


def test_old_days_are_dropped_with_their_counts(own: Session) -> None:
    complete(own, started(own))
    value(own, "cancel", id=enqueue(own))
    fail(own, started(own), no_retry=True)
    value(own, "fold_tally")
    first = today(own)
    shift_clock(own, "1 day")
    complete(own, started(own))
    assert value(own, "drop_days", keep="1 day") == 0, "the day ended less than a day ago"
    assert value(own, "drop_days", keep="0") == 1
    assert first not in days(own)
    assert stats(own) == {"completed": 1, "dead": 1}
    value(own, "fold_tally")
    assert stats(own) == {"completed": 1, "dead": 1}


@pytest.mark.parametrize("keep", [None, "-1 day"])
def test_a_retention_that_is_missing_or_negative_is_refused(own: Session, keep: str | None) -> None:
    before = days(own)
    with refusal(INVALID):
        value(own, "drop_days", keep=keep)
    assert days(own) == before


def test_upkeep_makes_folds_and_drops_only_when_told_how_long_to_keep(own: Session) -> None:
    complete(own, started(own))
    shift_clock(own, "40 days")
    call(own, "upkeep_1", keep=None)
    assert stats(own) == {"completed": 1}
    assert query(own, "select from wakeful.tally_delta") == []
    assert set(a_week_from(today(own))) < set(days(own))
    call(own, "upkeep_1", keep="30 days")
    assert stats(own) == {}
    assert days(own) == a_week_from(today(own))


def test_a_reader_of_history_stops_retention_and_retention_stops_no_settlement(
    own: Session, database: Database
) -> None:
    held = [started(own) for _ in range(20)]
    shift_clock(own, "2 days")
    with session(database.dsn) as reader, session(database.dsn) as tender, background() as start:
        reader.execute("begin")
        query(reader, "select count(*) from wakeful.finished_job")
        drops = []
        for one in held:
            dropping = start(timed_drop, tender)
            wait_until_blocked(own, tender, dropping)
            begun = time.monotonic()
            complete(own, one)
            waited = time.monotonic() - begun
            dropped, took = dropping.result()
            drops.append(dropped)
            # The lock timeout is 50 ms; a busy machine adds to that, but a reader who stays would be for ever.
            assert waited < 20
            assert took < 20
        assert set(drops) == {0}
        reader.execute("rollback")
        assert value(tender, "drop_days", keep="0") == 2


def timed_drop(db: Session) -> tuple[int, float]:
    begun = time.monotonic()
    dropped = value(db, "drop_days", keep="0")
    return dropped, time.monotonic() - begun


def test_a_reader_of_history_does_not_make_the_making_of_days_fail(own: Session, database: Database) -> None:
    shift_clock(own, "1 day")
    with session(database.dsn) as reader, reader.transaction():
        query(reader, "select count(*) from wakeful.finished_job")
        assert value(own, "make_days") == 0
        complete(own, started(own))
    assert value(own, "make_days") == 1


def test_a_settlement_in_flight_stops_neither_and_is_not_stopped(own: Session, database: Database) -> None:
    held = started(own)
    shift_clock(own, "3 days")
    with session(database.dsn) as settler:
        with settler.transaction():
            complete(settler, held)
            assert value(own, "make_days") == 3
            assert value(own, "drop_days", keep="0") == 0
        assert value(own, "drop_days", keep="0") == 3
    assert job(own, held.id)["state"] == "completed"


def test_one_tends_the_days_at_a_time_and_the_others_do_not_wait(own: Session, database: Database) -> None:
    shift_clock(own, "3 days")
    with session(database.dsn) as tender, tender.transaction():
        assert value(tender, "make_days") == 3
        assert value(own, "make_days") == 0
        assert value(own, "drop_days", keep="0") == 0


def test_a_fold_under_way_cannot_carry_a_days_counts_past_its_drop(own: Session, database: Database) -> None:
    complete(own, started(own))
    shift_clock(own, "2 days")
    # Patient, so that the two surely meet.
    own.execute("alter function wakeful.drop_days set lock_timeout = '10s'")
    with session(database.dsn) as folder, session(database.dsn) as dropper, background() as start:
        folder.execute("begin")
        value(folder, "fold_tally")
        dropping = start(value, dropper, "drop_days", keep="0")
        wait_until_blocked(own, dropper, dropping)
        folder.execute("commit")
        dropping.result()
    value(own, "drop_days", keep="0")
    value(own, "fold_tally")
    assert stats(own) == {}


def test_history_refuses_a_state_that_is_not_final(own: Session) -> None:
    complete(own, started(own))
    for state in (0, 1, 2, 4):
        with pytest.raises(psycopg.errors.CheckViolation):
            own.execute("update wakeful.finished_job set state = %s", [state])


def test_a_settlement_that_waits_for_a_day_being_dropped_succeeds(own: Session, database: Database) -> None:
    held = started(own)
    shift_clock(own, "2 days")
    with session(database.dsn) as dropper, session(database.dsn) as settler, background() as start:
        dropper.execute("begin")
        assert value(dropper, "drop_days", keep="0") == 2
        settling = start(complete, settler, held)
        wait_until_blocked(own, settler)
        dropper.execute("commit")
        settling.result()
    assert state_of(own, held.id) == "completed"


def test_what_has_no_day_of_its_own_is_dropped_with_its_counts_too(own: Session) -> None:
    for days_later in (0, 20):
        shift_clock(own, f"{days_later} days")
        complete(own, started(own))
    assert scalar(own, "select count(*) from wakeful.finished_job_default") == 1
    shift_clock(own, "5 days")
    value(own, "drop_days", keep="7 days")
    assert scalar(own, "select count(*) from wakeful.finished_job_default") == 1
    shift_clock(own, "5 days")
    value(own, "drop_days", keep="7 days")
    assert scalar(own, "select count(*) from wakeful.finished_job_default") == 0
    assert "completed" not in stats(own)
