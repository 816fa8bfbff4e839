"""What goes on beside the loop. Each is one turn of a duty, which is taken up again for as long as the worker lives."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from wakeful.config import AlertSettings
from wakeful.database.line import AsyncLine
from wakeful.observe.observer import Watch
from wakeful.run.attempt import Attempt
from wakeful.statements import alerts, fleet, metrics
from wakeful.statements import settle as settling
from wakeful.wake.alarm import Alarm
from wakeful.worker.crew import Crew
from wakeful.worker.ears import Ears
from wakeful.worker.presence import Presence
from wakeful.worker.summary import Summary
from wakeful.worker.writer import Writer

UPKEEP_EVERY = 600.0
FOLD_EVERY = 60.0
NOTES_EVERY = 1.0
LEASE_EVERY = 0.05
EARS_EVERY = 5.0
OWN_LEASES_EVERY = 1.0


async def upkeep(dsn: str, keep: timedelta | None) -> None:
    """Days of history are made and dropped, counts are folded."""
    await asyncio.sleep(UPKEEP_EVERY * random.uniform(0.5, 1.0))
    line = AsyncLine(dsn)
    try:
        await line.run(fleet.upkeep(keep))
    finally:
        await line.close()


class Folding:
    """What was measured is folded about once a minute; an idle worker has measured nothing."""

    def __init__(self, dsn: str, summary: Summary) -> None:
        self._dsn = dsn
        self._summary = summary
        self._counts = (0, 0)

    async def fold(self) -> None:
        """One turn. What was new a turn ago is folded: the settlement of what is new now may not be written yet."""
        await asyncio.sleep(FOLD_EVERY * random.uniform(0.5, 1.0))
        earlier, last = self._counts
        self._counts = (last, self._summary.processed)
        if last > earlier:
            line = AsyncLine(self._dsn)
            try:
                await line.run(metrics.fold())
            finally:
                await line.close()


async def watch_rules(dsn: str, settings: AlertSettings, watch: Watch) -> None:
    """One of the fleet looks whether a rule is broken; whoever it is tells."""
    await asyncio.sleep(settings.alert_every.total_seconds() * random.uniform(0.5, 1.0))
    if not (rules := settings.rules()):
        return
    line = AsyncLine(dsn)
    try:
        for alert in await line.run(alerts.watch(rules, settings.alert_every)):
            watch.alerted(alert)
    finally:
        await line.close()


class EarsReport:
    """Keeps the fleet's list true about whether this worker hears; a worker that always did says nothing."""

    def __init__(self, line: AsyncLine, presence: Presence, ears: Callable[[], Ears]) -> None:
        self._line = line
        self._presence = presence
        self._ears = ears
        self._told: tuple[UUID, bool] | None = None

    async def tell(self) -> None:
        """One turn: at most a statement each time that it changes, and one for each id."""
        await asyncio.sleep(EARS_EVERY)
        ears = self._ears()
        now = (self._presence.worker_id, ears.listens and not ears.hears)
        if now != (self._told or (now[0], False)):
            listener = "deaf" if now[1] else "hears"
            await self._line.run(fleet.tell(now[0], {"listener": listener}))
            self._told = now


async def gather_notes(crew: Crew, writer: Writer, alarm: Alarm) -> None:
    """What handlers noted while they run is written about once a second."""
    await asyncio.sleep(NOTES_EVERY)
    noted = [running for running in crew.running.values() if running.notes is not None]
    for running in noted:
        writer.note(running.job, running.take_notes())
    if noted:
        alarm.ring()


async def watch_lease(presence: Presence, crew: Crew, alarm: Alarm) -> None:
    """Handlers end before the lease does, also when neither the loop's call nor the beat's is ever answered."""
    lease = presence.lease
    await asyncio.sleep(LEASE_EVERY if lease.lapsed else max(LEASE_EVERY, lease.left_to_work))
    if lease is presence.lease and not lease.lapsed and lease.left_to_work <= 0:
        lease.lapsed = True
        crew.stop(crew.running, "lost")
        alarm.ring()


async def renew_own_leases(line: AsyncLine, presence: Presence, crew: Crew) -> None:
    """Jobs with a lease of their own keep it for as long as their handlers run."""
    held: dict[timedelta, list[Attempt]] = {}
    for running in crew.running.values():
        if running.lease is not None:
            held.setdefault(running.lease, []).append(running)
    for lease, attempts in held.items():
        claims = [(running.job.id, running.job.epoch) for running in attempts]
        refused = await line.run(settling.extend(presence.worker_id, claims, lease))
        crew.stop((refusal.id.bytes for refusal in refused if refusal.reason == "stale"), "lost")
    await asyncio.sleep(min([OWN_LEASES_EVERY, *(lease.total_seconds() / 3 for lease in held)]))
