"""One seed: some workers, some jobs, trouble for a while, peace, a long sleep, and an orderly end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid5

from tests.sessions import Session, empty, query, scalar, value
from tests.simulation.virtual_loop import VirtualLoop, run_virtually
from tests.simulation.world import World, simulated
from wakeful.app import Wakeful
from wakeful.claim.lanes import make_lanes
from wakeful.config import WorkerSettings
from wakeful.run.context import Context
from wakeful.run.handler import Handler
from wakeful.values.outcome import Snooze
from wakeful.values.retry import Fixed
from wakeful.worker.build import handler_of
from wakeful.worker.desk import Desk
from wakeful.worker.shift import LAST_MOMENT, LAST_WORDS, Shift
from wakeful.worker.summary import Summary

NAMES = UUID("7e57ab1e-0000-4000-8000-000000000001")
LEASE = timedelta(seconds=30)
SHUTDOWN = timedelta(seconds=25)
PULSE = 20.0
# The world is played: nobody connects.
NOWHERE = "postgresql://nobody@127.0.0.1:1/nowhere"
# What an idle worker may say in a second.
IDLE_RATE = 0.07
# From being due to being begun, with a slot free and nothing lost.
PROMPT = 1.0

# In virtual time, like all that passes here.
GLANCE = 1.0


@dataclass(slots=True)
class Told:
    """What was asked for, and what handlers did."""

    due: dict[UUID, float] = field(default_factory=dict)
    begun: dict[UUID, list[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """How one seed goes."""

    workers: int
    slots: int
    jobs: int
    seconds: float
    trouble: float
    sleeps_long: bool

    @classmethod
    def of(cls, dice: random.Random) -> Plan:
        """A third of them without any trouble: there, promptness is promised."""
        trouble = dice.choice([0.0, 0.02, 0.2])
        return cls(
            dice.randint(1, 3),
            dice.randint(1, 4),
            dice.randint(1, 12),
            dice.uniform(1, 60),
            trouble,
            dice.random() < 0.2,
        )


Sabotage = Callable[[Shift], None]


def play(db: Session, seed: int, sabotage: Sabotage | None = None) -> None:
    """Run one seed; an AssertionError says what did not hold."""
    random.seed(seed)
    empty_fast(db)
    # Whom to poke is chosen at random, in the database.
    db.execute("select setseed(%s)", [seed % 1000 / 1000])
    loop = VirtualLoop()
    run_virtually(live(db, random.Random(seed), sabotage), loop)


def empty_fast(db: Session) -> None:
    """As no seed before had been."""
    if scalar(db, "select to_regnamespace('wakeful_testing') is not null"):
        empty(db)
    for table in ("job", "finished_job", "dead_letter", "worker", "sleeper", "tally_delta", "tally"):
        db.execute(b"delete from wakeful." + table.encode())


def handlers(told: Told, dice: random.Random, loop: asyncio.AbstractEventLoop) -> dict[str, Handler]:
    """Tasks that take some time, fail now and then, or sleep."""
    app = Wakeful(NOWHERE)

    @app.task(name="simulated", retry=Fixed(1), max_attempts=1000)
    async def work(ctx: Context) -> Snooze | None:
        told.begun.setdefault(ctx.job.id, []).append(loop.time())
        await asyncio.sleep(dice.choice([0.0, 0.01, 3.0, 40.0 * dice.random() ** 3]))
        match dice.randrange(10):
            case 0:
                raise RuntimeError("it fails")
            case 1:
                return Snooze(dice.uniform(0, 10))
        return None

    return {task.spec.name: handler_of(task, timedelta(minutes=30)) for task in app.tasks.values()}


def shift_of(made: dict[str, Handler], plan: Plan) -> Shift:
    """A worker's shift, in whatever world it is made."""
    settings = WorkerSettings(
        concurrency=plan.slots, lease=LEASE, poll_interval=timedelta(seconds=PULSE), shutdown_timeout=SHUTDOWN
    )
    lanes = make_lanes((), plan.slots, frozenset({"default"}))
    # No handler here asks for anything of the app.
    desk: Desk = None  # type: ignore[assignment]
    return Shift(NOWHERE, NOWHERE, made, lanes, settings, desk)


async def live(db: Session, dice: random.Random, sabotage: Sabotage | None) -> None:
    """The life of one seed."""
    plan = Plan.of(dice)
    world = World(db, dice)
    told = Told()
    with simulated(world), world.inhabited():
        made = handlers(told, dice, world.loop)
        shifts = [shift_of(made, plan) for _ in range(plan.workers)]
        for shift in shifts:
            if sabotage is not None:
                sabotage(shift)
        # Who cannot register at all ends: that is its supervisor's to mend.
        working = [asyncio.create_task(shift.run()) for shift in shifts]
        await asyncio.sleep(dice.uniform(0, 2))
        world.trouble = plan.trouble
        world.pokes = sabotage is None
        await asyncio.gather(produce(world, told, plan), disturb(world, plan))
        world.trouble = 0.0
        await drained(world, told, plan)
        if plan.sleeps_long:
            await idle(world, plan)
        await over(world, shifts, working)


async def produce(world: World, told: Told, plan: Plan) -> None:
    """Enqueue at any moment, for now or for later."""
    dice = world.dice
    for moment in sorted(dice.uniform(0, plan.seconds) for _ in range(plan.jobs)):
        await asyncio.sleep(max(0.0, moment - world.loop.time()))
        delay = dice.choice([0.0, 0.0, dice.uniform(0, 30)])
        id = uuid5(NAMES, str(len(told.due)))
        world.tell_time()
        value(world.db, "enqueue", task="simulated", payload={}, id=id, delay=timedelta(seconds=delay))
        world.pass_on()
        told.due[id] = world.loop.time() + delay


async def disturb(world: World, plan: Plan) -> None:
    """Hang up on ears now and then."""
    until = world.loop.time() + plan.seconds
    while world.loop.time() < until:
        await asyncio.sleep(world.dice.uniform(0.1, 10))
        for ear in [ear for ear in world.ears if world.lost()]:
            ear.told.put_nowait(None)


async def drained(world: World, told: Told, plan: Plan) -> None:
    """All comes to an end, once each; and soon, where nothing was lost and a slot was free."""
    until = world.loop.time() + 30 + plan.jobs * 100 + 5 * LEASE.total_seconds()
    while scalar(world.db, "select count(*) from wakeful.job"):
        assert world.loop.time() < until, f"wedged: {query(world.db, 'select * from wakeful.jobs')}"
        await asyncio.sleep(GLANCE)
    rows = query(world.db, "select id, state, epoch from wakeful.jobs")
    assert sorted(row["id"] for row in rows) == sorted(told.due)
    assert {row["state"] for row in rows} <= {"completed"}, rows
    if plan.trouble == 0.0 and plan.jobs <= plan.slots and world.pokes:
        late = {id: starts[0] - told.due[id] for id, starts in told.begun.items() if starts[0] > told.due[id] + PROMPT}
        assert not late, f"begun late, with a slot free: {late}"
    early = {id: told.due[id] - starts[0] for id, starts in told.begun.items() if starts[0] < told.due[id] - 0.001}
    assert not early, f"begun before they were due: {early}"


async def idle(world: World, plan: Plan) -> None:
    """With nothing to do they say next to nothing."""
    await asyncio.sleep(2 * PULSE)
    world.statements.clear()
    seconds = 400.0
    await asyncio.sleep(seconds)
    said = sum(world.statements.values())
    assert said <= IDLE_RATE * seconds * plan.workers + 4, f"{said} in {seconds} s: {world.statements}"


async def over(world: World, shifts: list[Shift], working: Sequence[asyncio.Task[Summary]]) -> None:
    """Told to stop, each ends in time, and leaves nothing behind."""
    for shift in shifts:
        shift.stop()
    asked = world.loop.time()
    await asyncio.wait(working, timeout=3600)
    took = world.loop.time() - asked
    assert took <= SHUTDOWN.total_seconds() + LAST_MOMENT + LAST_WORDS + 1, f"it took {took} s to stop"
    for task in working:
        task.result()
    assert scalar(world.db, "select count(*) from wakeful.worker") == 0
