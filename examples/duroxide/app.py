"""Durable orchestrations on two queues: `orchestrator` decides what comes next, `worker` does it.

An item that becomes visible later is a job with `run_at`. Each turn writes history, and enqueues what follows, in the
transaction that completes it: an orchestration goes on exactly once from every step, whoever dies when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wakeful import Context, Wakeful

SCHEMA = """
create table if not exists orchestration (
    instance text primary key, workflow text not null, finished boolean not null default false
);
create table if not exists history (
    instance text not null, step integer not null, event text not null,
    at timestamptz not null default clock_timestamp(), primary key (instance, step)
)
"""

# Four dispatchers a queue.
LANES = "orchestrator:4,worker:4"

app = Wakeful()


@dataclass(frozen=True, slots=True)
class Activity:
    """A step that the worker queue does."""

    name: str


@dataclass(frozen=True, slots=True)
class Timer:
    """A step that only waits."""

    seconds: float


WORKFLOWS: Mapping[str, Sequence[Activity | Timer]] = {
    "order": (Activity("reserve"), Timer(0.2), Activity("ship")),
    "note": (),
    "call": (Activity("reserve"),),
}


@app.task(name="duroxide.turn", queue="orchestrator")
async def turn(ctx: Context, instance: str, step: int = 0, event: str = "started") -> None:
    """Note what has happened, and ask for what follows."""
    async with ctx.transaction() as conn:
        [workflow] = await (await conn.execute(_WORKFLOW, [instance])).fetchone()
        await conn.execute(_EVENT, [instance, step, event])
        steps = WORKFLOWS[workflow]
        if step == len(steps):
            await conn.execute(_FINISH, [instance])
            return
        match steps[step]:
            case Activity(name):
                await activity.using(conn=conn).aenqueue(instance, step, name)
            case Timer(seconds):
                await turn.using(conn=conn, delay=seconds).aenqueue(instance, step + 1, "timer fired")


@app.task(name="duroxide.activity", queue="worker")
async def activity(ctx: Context, instance: str, step: int, name: str) -> None:
    """Do one thing, and tell the orchestrator."""
    async with ctx.transaction() as conn:
        await turn.using(conn=conn).aenqueue(instance, step + 1, f"{name} done")


def start(instance: str, workflow: str, *, app: Wakeful = app, **options: Any) -> None:
    """Start an orchestration; `run_at` or `delay` is when its first turn becomes visible."""
    with app.database.transaction() as conn:
        conn.execute("insert into orchestration (instance, workflow) values (%s, %s)", [instance, workflow])
        app.enqueue("duroxide.turn", {"instance": instance}, conn=conn, queue="orchestrator", **options)


_WORKFLOW = "select o.workflow from orchestration o where o.instance = %s"
_EVENT = "insert into history (instance, step, event) values (%s, %s, %s)"
_FINISH = "update orchestration set finished = true where instance = %s"
