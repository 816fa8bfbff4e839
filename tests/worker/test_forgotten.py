"""A failover forgets what was acknowledged: a job is held in a worker's name that has settled it long ago."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from tests.sessions import Session, query, scalar
from tests.verbs import worker_claim
from tests.worker.work import at_rest, comes_to, shift_of, soon, working
from wakeful.app import Wakeful
from wakeful.run.context import Context
from wakeful.worker.calls import Calls
from wakeful.worker.ears import Ears
from wakeful.worker.worker import Worker

END_SESSIONS = """
    select pg_terminate_backend(pid, 10000) from pg_stat_activity
    where datname = current_database() and application_name = 'wakeful worker'
"""


@pytest.mark.parametrize("told", [True, False])
async def test_what_a_worker_does_not_know_it_holds_runs_again(app: Wakeful, db: Session, told: bool) -> None:
    """Its connection breaks; or, behind a pooler, not even that: then the pulse finds it."""
    started: list[int] = []

    @app.task(name="t")
    async def t(number: int) -> None:
        started.append(number)

    async with working(app) as worker:
        await comes_to(db, await t.aenqueue(1), "completed")
        await at_rest(worker)
        forgotten = claim_in_the_name_of(worker, db)
        if told:
            query(db, END_SESSIONS)
        else:
            shift_of(worker)._loop.ears = Ears()
        shift_of(worker)._loop.pulse_soon()
        await comes_to(db, forgotten, "completed")
    assert started == [1, 2]


def claim_in_the_name_of(worker: Worker, db: Session) -> UUID:
    """As a standby has it that heard of the claim, and not of what came after."""
    with db.transaction():
        made = scalar(db, """select wakeful.enqueue('t', '{"number": 2}', poke => false)""")
        [held], _ = worker_claim(db, shift_of(worker).worker_id)
    assert held.id == made
    return held.id


async def test_what_ends_while_doubts_are_settled_keeps_its_notes(
    app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes are written before the settlement of their job, which takes none afterwards."""
    go = asyncio.Event()

    @app.task(name="counts")
    async def counting(ctx: Context) -> None:
        await go.wait()
        ctx.count("seen")

    async def until_it_has_ended(calls: Calls) -> None:
        go.set()
        await soon(lambda: not calls._known())
        calls.doubts = False

    monkeypatch.setattr(Calls, "settle_doubts", until_it_has_ended)
    async with working(app) as worker:
        id = await counting.aenqueue()
        await comes_to(db, id, "running")
        shift_of(worker)._loop.doubt()
        shift_of(worker)._loop.alarm.ring()
        await comes_to(db, id, "completed")
    assert scalar(db, "select counters from wakeful.jobs") == {"seen": 1}
