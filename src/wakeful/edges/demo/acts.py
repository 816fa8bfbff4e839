"""The story: each act makes one thing happen, and says in one line how it went."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from wakeful.edges.demo import gauge
from wakeful.edges.demo.crowd import crowd
from wakeful.edges.demo.gauge import WorkerLine
from wakeful.edges.demo.scene import Killed, Line, clock
from wakeful.edges.demo.shop import (
    PAYMENTS,
    charge_card,
    count_stock,
    deliver_webhook,
    pack_parcel,
    resize_picture,
    send_mail,
    send_reminder,
)
from wakeful.edges.demo.show import Curtain, Show
from wakeful.statements import operate, read
from wakeful.statements.statement import Statement

PICTURES: Final = 1200
PARCELS: Final = 24
CHARGES: Final = 40
ACTOR: Final = "demo"
SCHEDULE: Final = "stock"


@dataclass(frozen=True, slots=True)
class Act:
    """`title` stands there until the act begins. One that `goes_on` ends with the show only."""

    title: str
    play: Callable[[Show, Line], Awaitable[None]]
    goes_on: bool = False


async def burst(show: Show, line: Line) -> None:
    """Many jobs at once, while orders keep their own slots."""
    await show.until(0.1)
    line.begins(f"{PICTURES:,} pictures at once")
    show.count(await resize_picture.aenqueue_many({"picture": number} for number in range(PICTURES)))

    async def all_done() -> bool | None:
        return (await show.run(read.stats(resize_picture.name))).completed >= PICTURES or None

    _, seconds = await show.wait_for(all_done)
    line.ends(f"{PICTURES:,} pictures at once: done in {seconds:.1f} s; orders did not wait behind them")


async def crash(show: Show, line: Line) -> None:
    """A worker is killed in the middle of its jobs."""
    await show.until(0.3)
    line.begins("A worker is about to be killed")
    show.count(await pack_parcel.aenqueue_many({"order": number} for number in range(PARCELS)))

    async def victim() -> WorkerLine | None:
        found = [worker for worker in await show.run(gauge.workers()) if worker.pid in show.supervisor.pids]
        busiest = max(found, key=lambda worker: worker.running, default=None)
        return busiest if busiest is not None and busiest.running >= PARCELS // 4 else None

    doomed, _ = await show.wait_for(victim)
    seat = show.supervisor.pids.index(doomed.pid)
    number, show.scene.killed = seat + 1, Killed(seat, doomed.pid)
    os.kill(doomed.pid, signal.SIGKILL)
    held = await show.run(gauge.held_by(doomed.id))
    line.alarms(f"Worker {number} killed with -9 in the middle of {len(held)} jobs")

    async def taken_back() -> bool | None:
        return not await show.run(gauge.held_by(doomed.id)) or None

    async def finished() -> bool | None:
        return await show.run(gauge.completed_of(held)) == len(held) or None

    _, seconds = await show.wait_for(taken_back)
    line.begins(f"Worker {number} killed with -9: its {len(held)} jobs taken back after {seconds:.1f} s")
    await show.wait_for(finished)
    line.ends(f"Worker {number} killed with -9: its {len(held)} jobs rescued after {seconds:.1f} s, all done")


async def flaky_mail(show: Show, line: Line) -> None:
    """One mail in eight is turned away, and goes out later."""
    await show.until(0.05)
    try:
        while True:
            retried = await show.run(gauge.retried(send_mail.name))
            line.begins(f"One mail in eight is turned away at first: {retried} sent at the second attempt")
            await show.pause(0.5)
    except Curtain:
        line.ends(line.text)


async def dead_letter(show: Show, line: Line) -> None:
    """A job that cannot succeed is set aside, and put back when its cause is gone."""
    await show.until(0.5)
    line.begins("A webhook whose receiver is broken")
    made = await deliver_webhook.aenqueue(order=1)
    show.count(made)
    assert made is not None
    letter, _ = await show.wait_for(lambda: show.run(gauge.dead_letter(made)))
    line.alarms(f"A webhook died after {letter.attempt} attempts: {letter.message}")
    await show.until(0.68)
    await show.run(gauge.mend_endpoint())
    again = (await show.run(operate.requeue([made], ACTOR)))[made]
    show.scene.enqueued += 1

    async def delivered() -> bool | None:
        return await show.run(gauge.completed_of([again])) == 1 or None

    await show.wait_for(delivered)
    line.ends(f"A webhook died after {letter.attempt} attempts; mended, put back, delivered")


async def reminder(show: Show, line: Line) -> None:
    """A job for a moment, with nobody polling for it."""
    moment = show.seconds * 0.45
    made = await send_reminder.using(delay=timedelta(seconds=moment - show.scene.elapsed)).aenqueue(order=1)
    show.count(made)
    assert made is not None
    show.far_off.append(made)
    line.begins(f"A reminder is due at {clock(moment)}; nobody polls for it")
    late, _ = await show.wait_for(lambda: show.run(gauge.lateness_ms(made)))
    line.ends(f"A reminder was due at {clock(moment)}: started {late:.1f} ms after its moment")


async def outage(show: Show, line: Line) -> None:
    """A service goes down: its breaker opens, its jobs wait, and it closes when the service is back."""
    await show.until(0.15)
    await show.run(gauge.switch_payments(False))
    line.begins("The payment service is down")
    made = await charge_card.aenqueue_many({"order": number} for number in range(CHARGES))
    show.count(made)
    ids = [id for id in made if id is not None]

    async def stands(state: str) -> bool | None:
        return await show.run(gauge.breaker_state(PAYMENTS.name)) == state or None

    async def charged() -> bool | None:
        return await show.run(gauge.completed_of(ids)) == len(ids) or None

    try:
        await show.wait_for(lambda: stands("open"))
        line.alarms(f"Payments are down: their breaker is open, {CHARGES} jobs wait, nothing else does")
        await show.until(0.4)
    finally:
        # Also when the curtain falls: the jobs are to end.
        await show.run(gauge.switch_payments(True))
    _, seconds = await show.wait_for(lambda: stands("closed"))
    await show.wait_for(charged)
    vain = await show.run(gauge.failed_attempts(ids))
    line.ends(f"Payments down: breaker opened, closed {seconds:.1f} s after; {CHARGES} paid, {vain} in vain")


async def by_the_clock(show: Show, line: Line) -> None:
    """A schedule, fired by whichever worker is there, once a slot."""
    await show.app.schedules.aadd(SCHEDULE, count_stock, every=1)
    counted = 0

    async def told() -> str:
        """Its jobs are made by the workers, so the table says how many there are."""
        nonlocal counted
        fired = await show.run(gauge.slots(SCHEDULE))
        show.scene.enqueued += fired.jobs - counted
        counted = fired.jobs
        return fired.told()

    try:
        while True:
            line.begins(f"A schedule fires every second: {await told()}")
            await show.pause(0.25)
    except Curtain:
        # Once it is gone no more can come.
        await show.app.schedules.aremove(SCHEDULE)
        line.ends(f"A schedule fired every second: {await told()}")


async def withdrawn(show: Show, line: Line) -> None:
    """A job that is not wanted any more."""
    made = await send_reminder.using(delay=timedelta(hours=1)).aenqueue(order=2)
    show.count(made)
    assert made is not None
    show.far_off.append(made)
    await show.until(0.75)
    await show.run(operate.cancel([made], "the order was withdrawn", ACTOR))
    line.ends("A reminder nobody wants any more: cancelled before its moment")


def cancelled(ids: list[UUID]) -> Statement[dict[UUID, str]]:
    """Take back what nobody will wait for."""
    return operate.cancel(ids, "the demo has ended", ACTOR)


# In the order in which they begin.
STORY: Final = (
    Act("Orders come in, each in one transaction with its job", crowd, goes_on=True),
    Act("A mail server that turns some mails away", flaky_mail, goes_on=True),
    Act("A schedule that fires every second", by_the_clock, goes_on=True),
    Act("A reminder for later", reminder),
    Act(f"{PICTURES:,} pictures at once", burst),
    Act("A payment service that goes down, behind a breaker", outage),
    Act("A worker killed with -9 in the middle of its jobs", crash),
    Act("A webhook that fails for good", dead_letter),
    Act("A reminder nobody wants any more", withdrawn),
)
