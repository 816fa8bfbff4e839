"""What the worker writes besides claims: settlements and notes, through the fence."""

from __future__ import annotations

import logging
from collections.abc import Sequence
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


class Writer:
    """Gathers, and writes as sets. What could not be written for want of a database stays gathered."""

    def __init__(self, line: AsyncLine, presence: Presence) -> None:
        self._line = line
        self._presence = presence
        self.gathering = Gathering()
        self.notes: dict[tuple[bytes, int], tuple[Job, Notes]] = {}
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
            noted, self.notes, self._some_ended = self.notes, {}, False
            rows = list(noted.values())
            while rows:
                try:
                    await flush_halving(rows[:NOTES_AT_ONCE], self._write_notes, self._drop_note)
                # Not a row's fault, or cancelled: they are written again.
                except BaseException:
                    self._put_back(rows)
                    raise
                del rows[:NOTES_AT_ONCE]
            if not self._some_ended:
                return

    def _put_back(self, rows: Sequence[tuple[Job, Notes]]) -> None:
        for job, notes in rows:
            later = self.notes.pop((job.key, job.epoch), None)
            self.note(job, notes if later is None else notes.with_later(later[1]))
        self._some_ended = True

    async def _write_notes(self, some: Sequence[tuple[Job, Notes]]) -> list[Refusal]:
        told = [
            (
                job.id,
                job.epoch,
                None if notes.progress is None else sanitise_json(notes.progress),
                sanitise_json(notes.counters) if notes.counters else None,
            )
            # In the order in which others lock several jobs.
            for job, notes in sorted(some, key=lambda noted: noted[0].key)
        ]
        await self._line.run(settling.notes(self._presence.worker_id, told))
        return []

    def _drop_note(self, noted: tuple[Job, Notes], error: Exception) -> None:
        """A number that is none, or too large: a note is not worth a worker."""
        log.warning("note_dropped: job %s: %s", noted[0].id, error, extra={"event": "note_dropped"})

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
