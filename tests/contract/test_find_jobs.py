"""`find_jobs`: pages of jobs in every state, found without reading history from end to end."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.sessions import Session, call, scalar, shift_clock
from tests.verbs import claim_one, enqueue, started


def found(db: Session, **asked: object) -> list[UUID]:
    return [row["id"] for row in call(db, "find_jobs", **asked)]


def completed(db: Session, task: str = "t", **options: Any) -> UUID:
    held = started(db, task, **options)
    call(db, "complete", **held.fence)
    return held.id


def died(db: Session, task: str = "t", **options: Any) -> UUID:
    held = started(db, task, **options)
    call(db, "fail", **held.fence, code="E42", message="The disk is Full", no_retry=True)
    return held.id


def test_jobs_of_all_kinds_come_in_one_line_the_newest_ids_first(db: Session) -> None:
    ids = [completed(db), died(db), enqueue(db), enqueue(db, delay="1 hour"), started(db, "r").id]
    assert found(db) == ids[::-1]
    assert [row["state"] for row in call(db, "find_jobs")] == ["running", "scheduled", "ready", "dead", "completed"]


def test_a_page_goes_on_behind_the_last_id_of_the_page_before(db: Session) -> None:
    makers = (completed, died, enqueue, completed, died, enqueue)
    ids = [maker(db, f"t{n}") for n, maker in enumerate(makers)]
    pages, after = [], None
    while page := found(db, most=2, after=after):
        pages.append(page)
        after = page[-1]
    assert [id for page in pages for id in page] == ids[::-1]


@pytest.mark.parametrize("maker", [completed, died, enqueue])
def test_every_filter_works_on_live_finished_and_dead_jobs(db: Session, maker: Any) -> None:
    correlation_id = uuid4()
    maker(db, "other")
    wanted = maker(
        db,
        "wanted",
        payload={"order": {"id": 7, "lines": [1, 2]}, "x": None},
        queue="q",
        tenant="acme",
        correlation_id=correlation_id,
    )
    for asked in (
        {"task": "wanted"},
        {"queue": "q"},
        {"tenant": "acme"},
        {"correlation_id": correlation_id},
        {"payload": {"order": {"lines": [2]}}},
        {"task": "wanted", "queue": "q", "tenant": "acme", "payload": {"x": None}},
    ):
        assert found(db, **asked) == [wanted], asked
    assert found(db, task="wanted", tenant="another") == []


def test_states_are_named_as_in_the_view(db: Session) -> None:
    done, dead, ready = completed(db), died(db), enqueue(db)
    assert found(db, states=["completed"]) == [done]
    assert found(db, states=["dead", "ready"]) == [ready, dead]
    assert found(db, states=["nonsense"]) == found(db, states=[]) == []


def test_an_error_is_found_by_its_code_or_by_a_part_of_its_message(db: Session) -> None:
    dead, failed = died(db), started(db, "again")
    call(db, "fail", **failed.fence, code="E43", message="the disk is slow", retry_in="1 hour")
    recovered = started(db, "fine")
    call(db, "fail", **recovered.fence, code="E44", message="once", retry_in="0")
    call(db, "complete", **claim_one(db, tasks=["fine"]).fence)
    assert found(db, error="E42") == found(db, error="is full") == [dead]
    assert found(db, error="DISK") == [failed.id, dead]
    assert found(db, error="E44") == [recovered.id]
    assert found(db, error="E4") == []


def test_age_is_about_the_creation(db: Session) -> None:
    old = [completed(db), died(db), enqueue(db)]
    shift_clock(db, "2 days")
    new = [completed(db, "n"), died(db, "n"), enqueue(db, "n")]
    assert found(db, younger="1 day") == new[::-1]
    assert found(db, older="1 day") == old[::-1]
    moment = scalar(db, "select wakeful.now() - interval '1 day'")
    assert found(db, since=moment) == new[::-1]
    assert found(db, before=moment) == old[::-1]
    assert found(db, since=moment, older="1 hour") == []


def rows_read(db: Session) -> int:
    """How many rows of history this session has read in the open transaction, and in those it has not reported yet."""
    read = scalar(
        db,
        "select sum(seq_tup_read + idx_tup_fetch)::int from pg_stat_xact_user_tables"
        " where schemaname = 'wakeful' and relname like 'finished_job%'",
    )
    assert isinstance(read, int)
    return read


def test_a_page_reads_no_more_of_history_than_it_shows(own: Session) -> None:
    own.execute(
        "insert into wakeful.finished_job (id, queue, task, state, rank, attempt, max_attempts, epoch, run_at,"
        " finished_at, created_at, correlation_id, payload)"
        " select wakeful.new_id(), 'default', 't' || n % 10, 3, 0, 1, 5, 1, now(), now() - n % 3 * interval '1 day',"
        " now(), gen_random_uuid(), '{}' from generate_series(1, 30000) n"
    )
    own.execute("analyze")
    with own.transaction():
        for asked, most in (
            ({}, 10),
            ({"task": "t3"}, 10),
            ({"states": ["completed"]}, 10),
            ({"states": ["ready"]}, 0),
        ):
            before = rows_read(own)
            assert len(found(own, most=10, **asked)) == most
            assert rows_read(own) - before <= most * 40, asked


def search(db: Session, **asked: object) -> tuple[list[UUID], UUID | None]:
    [row] = call(db, "search_jobs", **asked)
    return row["ids"], row["reached"]


def add_history(db: Session, jobs: int) -> None:
    db.execute(
        "insert into wakeful.finished_job (id, queue, task, state, rank, attempt, max_attempts, epoch, run_at,"
        " finished_at, created_at, correlation_id, payload)"
        " select wakeful.new_id(), 'default', 't' || n, 3, 0, 1, 5, 1, now(), now(), now(), gen_random_uuid(), '{}'"
        " from generate_series(1, %s) n",
        [jobs],
    )


def test_a_search_whose_time_is_over_tells_how_far_it_came_and_goes_on_from_there(db: Session) -> None:
    first = completed(db, "wanted")
    add_history(db, 2000)
    dead, ready = died(db, "wanted"), enqueue(db, "wanted")
    found, reached = search(db, task="wanted", patience="0", most=5)
    assert reached is not None
    assert set(found) <= {ready, dead}
    pages, steps = [*found], 0
    while reached is not None:
        more, reached = search(db, task="wanted", patience="0", most=5, after=reached)
        pages, steps = [*pages, *more], steps + 1
    assert pages == [ready, dead, first]
    assert steps > 100
    assert search(db, task="wanted", patience="1 minute") == ([ready, dead, first], None)


def test_a_page_that_is_full_is_no_search_that_was_given_up(db: Session) -> None:
    ids = [completed(db), died(db), enqueue(db)]
    assert search(db, most=2, patience="0") == (ids[:0:-1], None)
    assert search(db, most=0) == ([], None)


def test_a_correlation_is_found_in_history_without_reading_it(own: Session) -> None:
    root = completed(own, "root")
    children = [completed(own, "child", correlation_id=root) for _ in range(3)]
    add_history(own, 30000)
    own.execute("analyze")
    with own.transaction():
        before = rows_read(own)
        assert search(own, correlation_id=root) == ([*children[::-1], root], None)
        assert search(own, correlation_id=root, most=2) == (children[:0:-1], None)
        assert search(own, correlation_id=root, most=2, after=children[1]) == ([children[0], root], None)
        assert rows_read(own) - before < 100
