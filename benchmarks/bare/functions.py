"""wakeful's SQL functions, called by psycopg from a plain loop: what the database's side costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import psycopg

from benchmarks.driver.drive import Driver, drive, handlers
from benchmarks.driver.load import Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.driver.shared import Shared
from benchmarks.system import Own, System
from wakeful.database.connect import connect
from wakeful.database.migrations import up
from wakeful.values.identity import new_ids

SYSTEM = System(
    name="functions",
    title="wakeful's SQL functions",
    kind="bare",
    module="benchmarks.bare.functions",
    home=Own(),
    settings="called by psycopg from a plain loop; turns of 500, fenced, history kept, nobody asleep",
    unfinished="select exists (select from wakeful.job)",
    only=frozenset(("enqueue", "bulk", "drain", "pinned", "pinned-10", "claim", "steering", "pgbench")),
)

BATCH = 500

ENQUEUE = "select wakeful.enqueue('noop', %s::jsonb)"
ENQUEUE_MANY = """select place, id, action from wakeful.enqueue_batch_1(%s::uuid[], array['noop'], %s::text[],
    fresh => true)"""
REGISTER = "select wakeful.register_1(%s, 'bench', array['default'], array['noop'], 500, interval '1 hour')"
TURN = """select id, payload::text, epoch, rank, ready_at from wakeful.claim_1(%s::uuid, array['default'], array[1],
    array[%s::integer], array['noop'], h_ranks => array[%s::smallint], h_ready_ats => array[%s::timestamptz],
    h_ids => array[%s::uuid], tend => false, done_ids => %s::uuid[], done_epochs => %s::bigint[])"""

Position = tuple[Any, Any, Any]
FROM_THE_START: Position = (None, None, None)


class Functions(Driver):
    async def setup(self) -> None:
        with connect(self.dsn, name="wakeful bench") as conn:
            up(conn)

    async def open(self) -> None:
        self.connections = Shared([await self._connect() for _ in range(20)])

    async def close(self) -> None:
        for conn in self.connections.all:
            await conn.close()

    async def enqueue(self, handler: Handler, number: int) -> object:
        payload = json.dumps({"n": number})
        return await self.connections.use(lambda conn: conn.execute(ENQUEUE, [payload], prepare=True))

    async def enqueue_many(self, handler: Handler, numbers: Sequence[int]) -> object:
        payloads = [json.dumps({"n": number}) for number in numbers]
        conn = self.connections.all[0]
        return await conn.execute(ENQUEUE_MANY, [new_ids(len(payloads)), payloads], prepare=True)

    async def work(self, load: Load, probe: Probe) -> None:
        noop = handlers(probe)["noop"]
        conn, worker = await self._connect(), uuid4()
        await conn.execute(REGISTER, [worker])
        held: list[tuple[UUID, int]] = []
        after = FROM_THE_START
        while True:
            done = [[id for id, _ in held], [epoch for _, epoch in held]]
            turn = await conn.execute(TURN, [worker, load.batch or BATCH, *after, *done], prepare=True)
            # The last row is the report.
            rows = (await turn.fetchall())[:-1]
            for row in rows:
                await noop(json.loads(row[1])["n"])
            held = sorted((row[0], row[2]) for row in rows)
            if rows:
                after = max((row[3], row[4], row[0]) for row in rows)
            else:
                after = FROM_THE_START
                await asyncio.sleep(0.01)

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)


if __name__ == "__main__":
    import uvloop

    drive(Functions, uvloop.run)
