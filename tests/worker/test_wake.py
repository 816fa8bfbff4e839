"""Each thing that makes a job runnable wakes a sleeping worker: long before the pulse, which is a minute away."""

from __future__ import annotations

import asyncio

from tests.sessions import Session
from tests.worker.work import comes_to, counts, working
from wakeful.app import Wakeful


async def test_an_enqueue_in_python_wakes(app: Wakeful, db: Session) -> None:
    @app.task(name="t")
    async def t(number: int) -> int:
        return number

    async with working(app) as worker:
        id = await t.aenqueue(7)
        assert (await comes_to(db, id, "completed"))["result"] == 7
        print(counts(worker))
