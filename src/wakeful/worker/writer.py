"""What the worker writes besides claims: settlements and notes, through the fence."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from uuid import UUID

from wakeful.database.line import AsyncLine
from wakeful.payload import sanitise_json
from wakeful.run.attempt import Notes
from wakeful.settle.flush import flush_halving, in_place_of
from wakeful.settle.gather import Gathering
from wakeful.statements import settle as settling
from wakeful.values.job import Job
from wakeful.values.settlement import Completion, Ending, Refusal, Settlement
from wakeful.worker.presence import Presence

log = logging.getLogger("wakeful.worker")

NOTES_AT_ONCE = 500

Held = tuple[bytes, int]
"""A job's key, and the epoch under which it is held."""
Noted = tuple[Job, Notes]


class Writer:
    """Gathers, and writes as sets. What could not be written for want of a database stays gathered."""

    def __init__(self, line: AsyncLine, presence: Presence) -> None:
        self._line = line
        self._presence = presence
        self.gathering = Gathering()
        self.notes: dict[Held, Noted] = {}
        self._some_ended = False
        self.refused = 0
        self.unstorable = 0

    def __len__(self) -> int:
        return len(self.gathering) + len(self.notes)

    async def flush(self) -> None:
        """Write everything that is gathered."""
        while len(self):
            await self.write_notes()
            # Taken together: what ends while the first are written has notes of its own.
            endings, done = self.gathering.take_endings(), self.gathering.take_done()
            try:
                if endings:
                    await self.settle(endings)
            # Whatever it was, cancelled included: they are written again.
            except BaseException:
                self.gathering.put_back(done)
                raise
            if done:
                await self.complete(done)

    async def complete(self, done: list[Completion]) -> None:
        """Write completions."""

        async def write(rows: Sequence[Completion]) -> list[Refusal]:
            return await self._line.run(settling.complete(self._presence.worker_id, rows))

        try:
            refusals = await flush_halving(done, write, self._quarantine)
        # Not a row's fault, or cancelled: they are written again.
        except BaseException:
            self.gathering.put_back(done)
            raise
        self._note_refusals(refusals)

    async def settle(self, endings: list[Ending]) -> None:
        """Write other settlements."""

        async def write(rows: Sequence[Ending]) -> list[Refusal]:
            return await self._line.run(settling.settle(self._presence.worker_id, rows))

        try:
            refusals = await flush_halving(endings, write, self._quarantine)
        # Not a row's fault, or cancelled: they are written again.
        except BaseException:
            self.gathering.put_back(endings)
            raise
        self._note_refusals(refusals)

    def note(self, job: Job, notes: Notes) -> None:
        """Keep what a handler noted until it is written, with what is kept of the job already."""
        key = (job.key, job.epoch)
        if key in self.notes:
            notes = self.notes[key][1].with_later(notes)
        self.notes[key] = (job, notes)

    def ends(self, job: Job) -> None:
        """It is about to be settled: if notes of it are kept, whenever they came, they are written before that."""
        if (job.key, job.epoch) in self.notes:
            self._some_ended = True

    async def write_notes(self) -> None:
        """Before the settlement of its job: what is settled takes no more notes.

        What is noted meanwhile by jobs that run on is left for the next time, or there might be no end to it.
        """
        while self.notes:
            left, self.notes, self._some_ended = self.notes, {}, False
            try:
                while rows := list(left.values())[:NOTES_AT_ONCE]:
                    await flush_halving(rows, partial(self._write_notes, left), partial(_drop, left))
            # Not a row's fault, or cancelled: those that are left are written again, and none of them twice.
            except BaseException:
                self._put_back(left)
                raise
            if not self._some_ended:
                return

    async def _write_notes(self, left: dict[Held, Noted], some: Sequence[Noted]) -> list[Refusal]:
        await self._line.run(settling.notes(self._presence.worker_id, _told(some)))
        for job, _ in some:
            del left[job.key, job.epoch]
        return []

    def _put_back(self, left: Mapping[Held, Noted]) -> None:
        for key, (job, notes) in left.items():
            later = self.notes.get(key)
            self.notes[key] = (job, notes if later is None else notes.with_later(later[1]))
        self._some_ended = True

    def note_refused(self, ids: Sequence[UUID]) -> None:
        """These settlements did not pass the fence."""
        self.refused += len(ids)
        for id in ids:
            log.warning(
                "lease_lost: the settlement of job %s came too late; whoever holds it will finish it.",
                id,
                extra={"event": "lease_lost", "job_id": str(id)},
            )

    def _note_refusals(self, refusals: Sequence[Refusal]) -> None:
        self.note_refused([refusal.id for refusal in refusals if refusal.reason == "stale"])

    def _quarantine(self, bad: Settlement, error: Exception) -> None:
        self.unstorable += 1
        log.error(
            "settlement_unstorable: job %s: %s",
            bad.id,
            error,
            extra={"event": "settlement_unstorable", "job_id": str(bad.id)},
        )
        instead = in_place_of(bad, error)
        if bad == instead:
            # There is nothing of the job's own in this one: whatever is wrong, it is not the row.
            raise error
        self.gathering.add(instead)


def _told(some: Sequence[Noted]) -> list[tuple[UUID, int, str | None, str | None]]:
    """In the order in which others lock several jobs."""
    return [
        (
            job.id,
            job.epoch,
            None if notes.progress is None else sanitise_json(notes.progress),
            sanitise_json(notes.counters) if notes.counters else None,
        )
        for job, notes in sorted(some, key=lambda noted: noted[0].key)
    ]


def _drop(left: dict[Held, Noted], noted: Noted, error: Exception) -> None:
    """A number that is none, or too large: a note is not worth a worker."""
    job, _ = noted
    del left[job.key, job.epoch]
    log.warning("note_dropped: job %s: %s", job.id, error, extra={"event": "note_dropped"})
