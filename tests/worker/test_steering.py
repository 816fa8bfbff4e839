"""Limits, fair shares and policies as a worker's own code declares them."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from tests.sessions import Session, query, scalar
from tests.worker.work import all_over, at_rest, comes_to, counts, working
from wakeful.app import Wakeful
from wakeful.values.errors import QueueFull
from wakeful.values.outcome import Retry
from wakeful.values.retry import Fixed, Steps


async def test_a_limit_that_the_code_declares_holds_and_wakes_who_waits(app: Wakeful, db: Session) -> None:
    running: Counter[str] = Counter()
    most = 0

    @app.task(name="limited", concurrency=2, limit_key="account")
    async def limited(account: str) -> None:
        nonlocal most
        running[account] += 1
        most = max(most, running[account])
        await asyncio.sleep(0.01)
        running[account] -= 1

    async with working(app, concurrency=8):
        ids = await limited.aenqueue_many({"account": "ab"[n % 2]} for n in range(60))
        assert await all_over(db, ids) == {"completed": 60}
    assert most == 2


async def test_a_rate_is_kept_and_its_timer_wakes_the_worker(app: Wakeful, db: Session) -> None:
    @app.task(name="rated", rate="20/s", burst=2)
    async def rated(n: int) -> None: ...

    async with working(app, concurrency=8):
        ids = await rated.aenqueue_many({"n": n} for n in range(20))
        assert await all_over(db, ids) == {"completed": 20}
    starts = [row["started_at"] for row in query(db, "select started_at from wakeful.jobs order by started_at")]
    assert starts[-1] - starts[0] > timedelta(seconds=0.75)
    for first in starts:
        assert sum(first <= start < first + timedelta(seconds=0.5) for start in starts) <= 10 + 2 + 1


async def test_a_worker_that_waits_for_a_full_limit_asks_nothing(app: Wakeful, db: Session) -> None:
    go = asyncio.Event()

    @app.task(name="slow", concurrency=1)
    async def slow() -> None:
        await go.wait()

    async with working(app) as worker:
        ids = await slow.aenqueue_many([{}, {}, {}])
        await at_rest(worker)
        before = counts(worker)
        await asyncio.sleep(0.4)
        assert counts(worker) == before
        go.set()
        assert await all_over(db, ids) == {"completed": 3}


async def test_a_newer_deploy_has_the_last_word(app: Wakeful, db: Session) -> None:
    @app.task(name="t", concurrency=2, breaker="smtp")
    async def t() -> None: ...

    async with working(app):
        [told] = query(db, "select name, concurrency, breaker from wakeful.policies")
        assert told == {"name": "t", "concurrency": 2, "breaker": "smtp"}
    newer = Wakeful(app.settings.database.dsn)
    newer.task(name="t")(t.function)
    async with newer, working(newer):
        assert query(db, "select * from wakeful.policies") == []


async def test_a_full_queue_refuses_or_is_waited_for(app: Wakeful, db: Session) -> None:
    app.configure_queue("small", max_pending=2)

    @app.task(name="t", queue="small")
    async def t() -> None: ...

    db.execute("select wakeful.set_queue_policy('small', max_pending => 2)")
    await t.aenqueue_many([{}, {}])
    with pytest.raises(QueueFull) as refused:
        await t.aenqueue()
    assert (refused.value.queue, refused.value.max_pending) == ("small", 2)
    with pytest.raises(QueueFull):
        t.using(patience="100ms").enqueue()
    waiting = asyncio.create_task(t.using(patience="20s").aenqueue())
    await asyncio.sleep(0.2)
    assert not waiting.done()
    async with working(app):
        assert (await comes_to(db, await waiting, "completed"))["attempt"] == 1


async def test_a_job_may_have_a_retry_policy_of_its_own(app: Wakeful, db: Session) -> None:
    @app.task(name="t", retry=Fixed(3600))
    async def t() -> None:
        raise ValueError("always")

    async with working(app):
        id = await t.using(retry=Steps([0, 0, 0])).aenqueue()
        told = await comes_to(db, id, "dead")
    assert (told["attempt"], told["max_attempts"]) == (3, 3)


async def test_exceptions_decide_what_becomes_of_a_job(app: Wakeful, db: Session) -> None:
    @app.task(name="t", dead_on=KeyError, retry_on={ConnectionError: Fixed(7200)}, retry=Fixed(60))
    async def t(kind: str) -> None:
        raise {"final": KeyError("x"), "own": ConnectionResetError("y"), "other": ValueError("z")}[kind]

    async with working(app):
        await comes_to(db, await t.aenqueue(kind="final"), "dead")
        own = await comes_to(db, await t.aenqueue(kind="own"), "scheduled")
        other = await comes_to(db, await t.aenqueue(kind="other"), "scheduled")
    assert (own["run_at"] - own["started_at"]).total_seconds() > 7000
    assert (other["run_at"] - other["started_at"]).total_seconds() < 100


@pytest.mark.parametrize("executor", [None, "thread"])
async def test_no_secret_of_the_payload_is_stored_with_an_error(
    app: Wakeful, db: Session, executor: str | None
) -> None:
    canary = "c4nary-5f1e"

    def fail(password: str) -> None:
        raise Retry(after=0, reason=f"login with {password!r} refused")

    async def afail(password: str) -> None:
        fail(password)

    task = app.task(name="t", redact=["password"], max_attempts=2)(afail if executor is None else fail)
    async with working(app):
        told = await comes_to(db, await task.aenqueue(password=canary), "dead")
    assert "[redacted]" in told["last_error_message"]
    assert canary not in str(told["attempts"])
    [letter] = query(db, "select error_message, error_details::text as details from wakeful.dead_letters")
    assert canary not in str(letter)


async def test_dead_letters_are_seen_to_in_code(app: Wakeful, db: Session) -> None:
    @app.task(name="t", max_attempts=1)
    async def t(n: int) -> None:
        if n % 2:
            raise ValueError("odd")

    async with working(app):
        ids = await t.using(tenant="a").aenqueue_many({"n": 1} for _ in range(5))
        await all_over(db, ids)
    assert len(await app.dead.alist(task="t", error="odd")) == 5
    assert await app.dead.aacknowledge(str(ids[0]), actor="ann") == 1
    assert await app.dead.arequeue(task="t", tenant="a", rate=1000, actor="ann") == 4
    assert await app.dead.arequeue(task="t") == 0
    assert app.dead.list(task="u") == []
    assert scalar(db, "select count(*) from wakeful.audits where actor = 'ann' and act = 'requeue'") == 4
