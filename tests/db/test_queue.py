"""`app.queue`: jobs claimed and settled by hand. Every test runs with the sync and with the async verbs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from tests.db.queues import Verbs
from tests.sessions import Session, query, scalar, shift_clock
from wakeful.app import Wakeful
from wakeful.queue import ClaimedJob, Queue
from wakeful.values.errors import InvalidOption, JobNotFound, PayloadError, Refused, StaleClaim
from wakeful.values.outcome import Dead, Retry
from wakeful.values.retry import Fixed, Never


async def claimed(verbs: Verbs, task: str = "t", **options: object) -> ClaimedJob:
    await verbs.enqueue(task, {"n": 1}, **options)
    [job] = await verbs.claim(task)
    assert isinstance(job, ClaimedJob)
    return job


def state(db: Session, id: UUID) -> dict[str, object]:
    [row] = query(db, "select * from wakeful.jobs where id = %s", id)
    return row


async def test_a_claimed_job_carries_what_was_enqueued(verbs: Verbs) -> None:
    correlation_id = uuid4()
    id = await verbs.enqueue(
        "mail.send",
        {"to": "a@b.c", "lines": [1, 2.5, None]},
        queue="mail",
        priority=7,
        tenant="acme",
        correlation_id=correlation_id,
        max_attempts=2,
        created_by="me",
        tags=["x"],
    )
    [job] = await verbs.claim()
    assert (job.id, job.task, job.queue) == (id, "mail.send", "mail")
    assert job.payload == {"to": "a@b.c", "lines": [1, 2.5, None]}
    assert (job.attempt, job.max_attempts, job.priority, job.epoch) == (1, 2, 7, 1)
    assert (job.tenant, job.correlation_id, job.created_by) == ("acme", correlation_id, "me")
    assert job.metadata == {"tags": ["x"]}
    assert job.attempts == []
    assert job.idempotency_key == str(id)
    assert job.started_at >= job.created_at
    assert not job.lost
    assert "mail.send" in repr(job)


async def test_an_empty_queue_gives_an_empty_list(verbs: Verbs) -> None:
    assert await verbs.claim() == []
    assert await verbs.dequeue("t", limit=10) == []


async def test_jobs_come_in_line_order_and_no_more_than_asked_for(verbs: Verbs) -> None:
    ids = [await verbs.enqueue("t", {"n": n}) for n in range(4)]
    urgent = await verbs.enqueue("t", {}, priority=10)
    first = await verbs.claim(limit=3)
    assert [job.id for job in first] == [urgent, *ids[:2]]
    assert [job.id for job in await verbs.claim(limit=10)] == ids[2:]


async def test_only_the_named_tasks_and_queues_are_taken(verbs: Verbs) -> None:
    a, b, c = [await verbs.enqueue(task, {}, queue=f"of.{task}") for task in ("a", "b", "c")]
    assert [job.id for job in await verbs.claim("b", limit=9)] == [b]
    assert await verbs.claim(["a", "b"], limit=9, queues=["of.b", "of.c"]) == []
    assert {job.id for job in await verbs.claim(limit=9, queues=["of.a", "of.c"])} == {a, c}


async def test_no_job_is_claimed_twice(verbs: Verbs) -> None:
    ids = {await verbs.enqueue("t", {"n": n}) for n in range(20)}
    batches = await asyncio.gather(*(verbs.claim(limit=3) for _ in range(8)))
    taken = [job.id for batch in batches for job in batch]
    assert len(taken) == len(set(taken)) == 20
    assert set(taken) == ids


async def test_a_completed_job_has_its_result(verbs: Verbs, db: Session) -> None:
    job = await claimed(verbs)
    await verbs.mark_completed(job, {"rows": 3})
    row = state(db, job.id)
    assert (row["state"], row["result"]) == ("completed", {"rows": 3})


async def test_a_result_that_cannot_be_stored_is_stored_as_near_as_can_be(verbs: Verbs, db: Session) -> None:
    job = await claimed(verbs)
    await verbs.mark_completed(job, {"nan": float("nan"), "nul": "a\x00b", "object": object})
    assert state(db, job.id)["result"] == {"nan": "nan", "nul": "ab", "object": str(object)}


async def test_a_failed_job_starts_again_after_the_default_wait(verbs: Verbs, db: Session) -> None:
    job = await claimed(verbs)
    await verbs.mark_failed(job, ValueError("no such row"))
    row = state(db, job.id)
    assert (row["state"], row["attempt"]) == ("scheduled", 1)
    assert (row["last_error_code"], row["last_error_message"]) == ("ValueError", "no such row")
    wait = scalar(db, "select run_at - wakeful.now() from wakeful.jobs")
    assert timedelta(seconds=0.5) < wait <= timedelta(seconds=1.1)


async def test_a_job_is_dead_after_its_last_start(verbs: Verbs, db: Session) -> None:
    job = await claimed(verbs, max_attempts=1)
    await verbs.mark_failed(job, "it broke")
    [letter] = query(db, "select * from wakeful.dead_letters")
    assert (letter["id"], letter["error_code"], letter["error_message"]) == (job.id, "failed", "it broke")


async def test_a_job_is_dead_at_once_when_no_retry_is_wanted(verbs: Verbs, db: Session) -> None:
    job = await claimed(verbs)
    await verbs.mark_failed(job, ("bad_input", "no recipient"), False)
    row = state(db, job.id)
    assert row["state"] == "dead"
    assert (row["last_error_code"], row["last_error_message"]) == ("bad_input", "no recipient")


@pytest.mark.parametrize(
    ("error", "named", "kept"),
    [
        (KeyError("k"), {}, ("KeyError", "'k'")),
        ("boom", {}, ("failed", "boom")),
        ("boom", {"code": "E42"}, ("E42", "boom")),
        (("E42", "boom"), {}, ("E42", "boom")),
        (None, {"code": "E42", "message": "boom"}, ("E42", "boom")),
        (OSError(5, "disk"), {"code": "disk_full"}, ("disk_full", "[Errno 5] disk")),
        ("a\x00b\ud800", {}, ("failed", "ab\ufffd")),
    ],
)
async def test_a_failure_is_told_as_an_exception_a_message_or_both_parts(
    verbs: Verbs, db: Session, error: object, named: dict[str, str], kept: tuple[str, str]
) -> None:
    job = await claimed(verbs)
    await verbs.mark_failed(job, error, **named)
    row = state(db, job.id)
    assert (row["last_error_code"], row["last_error_message"]) == kept


async def test_a_failure_may_name_its_own_wait_and_details(verbs: Verbs, db: Session) -> None:
    job = await claimed(verbs)
    await verbs.mark_failed(job, "later", retry_in="1h", details={"status": 429})
    row = state(db, job.id)
    assert scalar(db, "select run_at - wakeful.now() from wakeful.jobs") > timedelta(minutes=59)
    assert isinstance(row["attempts"], list)
    assert row["attempts"][0]["details"] == {"status": 429}


async def test_exceptions_that_say_what_shall_become_of_the_job_are_heeded(verbs: Verbs, db: Session) -> None:
    job = await claimed(verbs)
    await verbs.mark_failed(job, Retry(after="2h"))
    assert scalar(db, "select run_at - wakeful.now() from wakeful.jobs") > timedelta(minutes=119)
    other = await claimed(verbs, "other")
    await verbs.mark_failed(other, Dead("hopeless"))
    assert state(db, other.id)["state"] == "dead"


async def test_a_task_of_this_app_keeps_its_own_retry_policy(verbs: Verbs, app: Wakeful, db: Session) -> None:
    app.task(name="slow", retry=Fixed("1h"))(lambda n: None)
    app.task(name="once", retry=Never())(lambda n: None)
    slow, once = await claimed(verbs, "slow"), await claimed(verbs, "once")
    await verbs.mark_failed(slow, "x")
    await verbs.mark_failed(once, "x")
    assert scalar(db, "select run_at - wakeful.now() from wakeful.jobs where task = 'slow'") > timedelta(minutes=59)
    assert state(db, once.id)["state"] == "dead"


async def test_neither_snooze_nor_release_counts_as_an_attempt(verbs: Verbs, db: Session) -> None:
    job = await claimed(verbs)
    await verbs.release(job)
    [again] = await verbs.claim()
    assert (again.id, again.attempt, again.epoch) == (job.id, 1, 2)
    await verbs.snooze(again, "1h", "too early")
    row = state(db, job.id)
    assert (row["state"], row["attempt"]) == ("scheduled", 0)


async def test_an_id_settles_what_this_queue_has_claimed(verbs: Verbs, db: Session) -> None:
    first, second = await claimed(verbs), await claimed(verbs)
    await verbs.mark_completed(first.id)
    await verbs.mark_failed(str(second.id), "x", retry=False)
    assert [state(db, job.id)["state"] for job in (first, second)] == ["completed", "dead"]


async def test_any_other_id_is_refused(verbs: Verbs, db: Session) -> None:
    waiting = await verbs.enqueue("t", {})
    with pytest.raises(Refused, match=r"not held by this queue.*`claim`") as caught:
        await verbs.mark_completed(waiting)
    assert caught.value.job_id == waiting
    with pytest.raises(Refused):
        await verbs.extend(uuid4(), "1m")
    with pytest.raises(InvalidOption, match="'nonsense': pass a claimed job"):
        await verbs.mark_failed("nonsense", "x")
    assert scalar(db, "select state from wakeful.jobs") == "ready"


async def test_a_second_settlement_is_refused(verbs: Verbs, db: Session) -> None:
    job = await claimed(verbs)
    await verbs.mark_completed(job)
    with pytest.raises(Refused):
        await verbs.mark_completed(job.id)
    with pytest.raises(StaleClaim) as caught:
        await verbs.mark_failed(job, "x", retry=False)
    assert caught.value.job_id == job.id
    assert state(db, job.id)["state"] == "completed"


async def test_who_has_lost_the_lease_changes_nothing(verbs: Verbs, app: Wakeful, db: Session) -> None:
    await verbs.enqueue("t", {})
    [job] = await verbs.claim(lease="1m", renew=False)
    shift_clock(db, "2 minutes")
    thief = Queue(app)
    [taken] = thief.claim()
    assert (taken.id, taken.attempt) == (job.id, 2)
    for verb, *rest in (
        ("mark_completed", {"late": True}),
        ("mark_failed", "late"),
        ("snooze", 1),
        ("release",),
        ("extend", "1h"),
    ):
        with pytest.raises(StaleClaim):
            await getattr(verbs, verb)(job, *rest)
    assert job.lost
    thief.mark_completed(taken, "mine")
    assert state(db, job.id)["result"] == "mine"
    thief.close()


async def test_a_job_can_be_settled_by_another_queue_of_the_process(verbs: Verbs, app: Wakeful) -> None:
    job = await claimed(verbs)
    other = Queue(app)
    with pytest.raises(Refused):
        other.mark_completed(job.id)
    other.mark_completed(job)
    other.close()


async def test_a_lease_is_as_long_as_asked_and_can_be_extended(verbs: Verbs, db: Session) -> None:
    await verbs.enqueue("t", {})
    [job] = await verbs.claim(lease="10m")
    left = "select lease_expires_at - wakeful.now() from wakeful.jobs"
    assert timedelta(minutes=9) < scalar(db, left) <= timedelta(minutes=10)
    await verbs.extend(job, "1h")
    assert timedelta(minutes=59) < scalar(db, left) <= timedelta(hours=1)
    assert job.lease == timedelta(hours=1)
    await verbs.extend(job.id)
    assert scalar(db, left) > timedelta(minutes=59)


async def test_stats_are_exact_in_every_state(verbs: Verbs) -> None:
    for task in ("a", "b"):
        done, dead, gone = [await claimed(verbs, task) for _ in range(3)]
        await verbs.mark_completed(done)
        await verbs.mark_failed(dead, "x", retry=False)
        await verbs.mark_failed(gone, "x", retry_in="1h")
        await verbs.cancel(gone.id)
        await claimed(verbs, task)
        await verbs.enqueue(task, {"n": 1})
        await verbs.enqueue(task, {"n": 1}, delay="1h")
    one = {"pending": 2, "processing": 1, "completed": 1, "failed": 1, "cancelled": 1, "total": 6}
    assert await verbs.get_stats("a") == await verbs.get_stats(job_type="b") == one
    assert await verbs.get_stats() == {name: 2 * count for name, count in one.items()}
    assert sum((await verbs.get_stats("nobody")).values()) == 0


async def test_clean_up_removes_what_is_old_and_in_that_state(verbs: Verbs, db: Session) -> None:
    for _ in range(3):
        await verbs.mark_completed(await claimed(verbs))
    await verbs.mark_failed(await claimed(verbs), "x", retry=False)
    waiting = await verbs.enqueue("t", {}, delay="1h")
    await verbs.cancel(waiting)
    assert await verbs.cleanup_old_jobs() == 0
    shift_clock(db, "8 days")
    await verbs.mark_completed(await claimed(verbs))
    assert await verbs.cleanup_old_jobs(days=7, status="completed") == 3
    assert await verbs.cleanup_old_jobs(status="failed") == 0, "nobody has acknowledged it"
    db.execute("select wakeful.acknowledge(id, 'me') from wakeful.dead_letters")
    assert await verbs.cleanup_old_jobs(status="failed") == 1
    assert await verbs.cleanup_old_jobs(7, "cancelled") == 1
    counts = await verbs.get_stats()
    assert (counts["completed"], counts["total"]) == (1, 1)


async def test_a_job_is_cancelled_put_back_and_hurried(verbs: Verbs, db: Session) -> None:
    later = await verbs.enqueue("t", {"n": 1}, delay="1h")
    assert await verbs.retry(later) == later
    [job] = await verbs.claim()
    assert await verbs.cancel(job.id, "no need") == "requested"
    await verbs.mark_failed(job, "stopped")
    assert state(db, job.id)["state"] == "cancelled"
    with pytest.raises(Refused, match="is over"):
        await verbs.cancel(job.id)
    again = await verbs.requeue(job.id)
    assert again != job.id
    [back] = await verbs.claim()
    assert (back.id, back.payload, back.idempotency_key) == (again, {"n": 1}, str(job.id))
    await verbs.mark_completed(back)
    assert await verbs.retry(back.id) not in (job.id, back.id)
    for verb in (verbs.cancel, verbs.requeue, verbs.retry):
        with pytest.raises(JobNotFound):
            await verb(uuid4())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": True}, "limit"),
        ({"lease": 0}, "lease"),
        ({"lease": "soon"}, "lease"),
        ({"wait": -1}, "wait"),
        ({"task": ""}, "task"),
        ({"task": []}, "task"),
        ({"task": 7}, "task"),
        ({"queues": ["a b"]}, "queues"),
    ],
)
async def test_what_cannot_be_asked_for_is_named(verbs: Verbs, arguments: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        await verbs.claim(**arguments)
    assert caught.value.option == named


async def test_bad_words_are_refused_by_name(verbs: Verbs) -> None:
    job = await claimed(verbs)
    with pytest.raises(InvalidOption, match="give an exception"):
        await verbs.mark_failed(job, 42)
    with pytest.raises(InvalidOption, match="delay"):
        await verbs.snooze(job, -5)
    with pytest.raises(InvalidOption, match="lease"):
        await verbs.extend(job, 0)
    with pytest.raises(InvalidOption, match="'ready', which is not final"):
        await verbs.cleanup_old_jobs(status="ready")
    with pytest.raises(InvalidOption, match="days"):
        await verbs.cleanup_old_jobs(days=-1)
    with pytest.raises(InvalidOption, match="name the task"):
        await verbs.enqueue()
    with pytest.raises(PayloadError, match="`when`"):
        await verbs.enqueue("t", {"when": object()})
    await verbs.mark_completed(job)
