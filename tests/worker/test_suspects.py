"""A job under suspicion runs alone; it does not stop the worker, however busy that is."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from tests.sessions import Session, scalar
from tests.worker.work import all_over, at_rest, comes_to, counts, heard, soon, starting, working
from wakeful.app import Wakeful
from wakeful.claim import solitude


def suspect(db: Session, task: str) -> UUID:
    """A job that has been near two crashes: no worker sees it before that is written."""
    with db.transaction():
        id: UUID = scalar(db, "select wakeful.enqueue(%s, '{}', poke => false)", task)
        db.execute("update wakeful.job set suspect = true, shared_crashes = 2 where id = %s", [id])
    return id


async def test_it_runs_when_nothing_else_does_and_nothing_else_runs_meanwhile(app: Wakeful, db: Session) -> None:
    running: set[str] = set()
    beside: list[set[str]] = []

    @app.task(name="odd")
    async def odd() -> None:
        beside.append(set(running))
        running.add("odd")
        await asyncio.sleep(0.05)
        beside.append(set(running) - {"odd"})
        running.discard("odd")

    @app.task(name="t")
    async def t(number: int) -> None:
        running.add(str(number))
        await asyncio.sleep(0.01)
        running.discard(str(number))

    ids = [suspect(db, "odd") for _ in range(2)]
    ids += [id for id in await app.tasks["t"].aenqueue_many([{"number": n} for n in range(20)]) if id]
    async with starting(app, concurrency=4):
        assert await all_over(db, ids) == {"completed": 22}
    assert beside == [set()] * 4


async def test_it_does_not_keep_a_busy_worker_from_its_other_work(
    app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One handler takes hours: the suspect must wait, and everything else goes on."""
    monkeypatch.setattr(solitude, "REST_SECONDS", 0.2)
    go, began = asyncio.Event(), asyncio.Event()

    @app.task(name="long")
    async def long() -> None:
        began.set()
        await go.wait()

    @app.task(name="odd")
    async def odd() -> None: ...

    @app.task(name="t")
    async def t() -> None: ...

    async with working(app, concurrency=4) as worker:
        held = await long.aenqueue()
        await heard(began)
        waiting = suspect(db, "odd")
        for _ in range(5):
            await comes_to(db, await t.aenqueue(), "completed")
        await at_rest(worker)
        said = counts(worker)
        assert scalar(db, "select state from wakeful.jobs where id = %s", waiting) == "ready"
        await asyncio.sleep(0.4)
        assert counts(worker) == said, "it asks again and again"
        go.set()
        assert await all_over(db, [held, waiting]) == {"completed": 2}


async def test_it_gets_its_chance_under_a_load_that_never_ends(app: Wakeful, db: Session) -> None:
    over = asyncio.Event()

    @app.task(name="odd")
    async def odd() -> None:
        over.set()

    @app.task(name="t")
    async def t() -> None:
        if not over.is_set():
            await t.using(poke=False).aenqueue()
            await asyncio.sleep(0.01)

    await app.tasks["t"].aenqueue_many([{} for _ in range(10)])
    async with starting(app, concurrency=2, poll_interval=0.5):
        await soon(lambda: scalar(db, "select count(*) from wakeful.finished_job") > 10)
        id = suspect(db, "odd")
        await comes_to(db, id, "completed")


async def test_one_whose_row_is_held_is_not_asked_for_all_the_time(app: Wakeful, db: Session) -> None:
    @app.task(name="odd")
    async def odd() -> None: ...

    id = suspect(db, "odd")
    with db.transaction():
        db.execute("select from wakeful.job where id = %s for update", [id])
        async with starting(app) as worker:
            await soon(lambda: counts(worker)["claims"] >= 2)
            said = counts(worker)["claims"]
            await asyncio.sleep(0.4)
            assert counts(worker)["claims"] - said <= 6
            db.execute("select")
    async with starting(app):
        await comes_to(db, id, "completed")
