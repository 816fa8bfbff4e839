"""The renewal: one thread that keeps the leases of all jobs that this process holds.

It starts with the first job, renews sets of them when a third of their lease is over, and ends soon after
nothing is held any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from wakeful.queue.claimed import ClaimedJob
from wakeful.statements.settle import extend
from wakeful.statements.statement import Statement
from wakeful.values.settlement import Refusal

log = logging.getLogger("wakeful.queue")

LINGER: Final = 1.0
LONGEST_PAUSE: Final = 5.0

Run = Callable[[Statement[list[Refusal]]], list[Refusal]]


@dataclass(slots=True)
class _Lease:
    job: ClaimedJob
    renew_at: float

    @property
    def seconds(self) -> float:
        return self.job.lease.total_seconds()


class Renewal:
    """Renews what it holds, through `run`, until told to let go."""

    def __init__(self, worker_id: UUID, run: Run) -> None:
        self._worker_id = worker_id
        self._run = run
        self._changed = threading.Condition()
        self._held: dict[UUID, _Lease] = {}
        self._wakes_at = 0.0
        self._closed = False
        self._thread: threading.Thread | None = None

    def hold(self, jobs: Iterable[ClaimedJob], since: float) -> None:
        """Keep these from now on; their leases run since `since` on the monotonic clock."""
        with self._changed:
            for job in jobs:
                self._held[job.id] = _Lease(job, since + job.lease.total_seconds() / 3)
            if not self._held:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._renew, name="wakeful-queue-renewal", daemon=True)
                self._thread.start()
            elif self._next() < self._wakes_at:
                self._changed.notify()

    def let_go(self, id: UUID) -> None:
        """Renew it no more."""
        with self._changed:
            if self._held.pop(id, None) is not None and not self._held:
                self._changed.notify()

    def close(self) -> None:
        """Let go of everything, and wait for the thread to end."""
        with self._changed:
            self._held.clear()
            self._closed, thread = True, self._thread
            self._changed.notify()
        if thread is not None:
            thread.join()

    def _renew(self) -> None:
        while due := self._wait_for_due():
            for lease, group in _by_lease(due).items():
                try:
                    self._extend(lease, group)
                except Exception as error:
                    # Whatever is wrong, the jobs are still ours to keep: it is told, and tried again soon.
                    log.warning("lease_renewal_failed: %s", error, extra={"event": "lease_renewal_failed"})
                    self._put_off(group, time.monotonic())

    def _wait_for_due(self) -> list[_Lease]:
        """Those whose third is over, or nearly; empty when nothing is held and the thread shall end."""
        with self._changed:
            while True:
                if not self._held:
                    self._wakes_at = 0.0
                    self._changed.wait_for(lambda: self._held or self._closed, LINGER)
                    if not self._held:
                        self._thread = None
                        return []
                now = time.monotonic()
                self._wakes_at = self._next()
                if self._wakes_at <= now:
                    return [held for held in self._held.values() if held.renew_at <= now + held.seconds / 10]
                self._changed.wait(self._wakes_at - now)

    def _extend(self, lease: timedelta, due: list[_Lease]) -> None:
        sent_at = time.monotonic()
        refusals = self._run(extend(self._worker_id, [(held.job.id, held.job.epoch) for held in due], lease))
        refused = {refusal.id: refusal.reason for refusal in refusals}
        for held in due:
            match refused.get(held.job.id):
                case None:
                    held.renew_at = sent_at + held.seconds / 3
                case "locked":
                    self._put_off([held], sent_at)
                case "settled":
                    self.let_go(held.job.id)
                case "stale":
                    self.let_go(held.job.id)
                    held.job.lost = True
                    log.warning(
                        "lease_lost: job %s of task %s is not held by this process any more",
                        *(held.job.id, held.job.task),
                        extra={"event": "lease_lost", "job_id": str(held.job.id), "task": held.job.task},
                    )

    def _put_off(self, leases: Iterable[_Lease], now: float) -> None:
        for held in leases:
            held.renew_at = now + min(held.seconds / 10, LONGEST_PAUSE)

    def _next(self) -> float:
        return min(held.renew_at for held in self._held.values())


def _by_lease(due: Iterable[_Lease]) -> dict[timedelta, list[_Lease]]:
    groups: dict[timedelta, list[_Lease]] = defaultdict(list)
    for held in due:
        groups[held.job.lease].append(held)
    return groups
