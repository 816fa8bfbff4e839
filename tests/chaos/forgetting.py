"""What an asynchronous standby never heard of: it is taken out of the evidence, and counted.

Only what the lag explains is taken out. A job that was acknowledged before it, and is gone, stays a lost job.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.chaos.evidence import Evidence
from tests.chaos.history import Run
from tests.chaos.invariants import begins_a_claim
from tests.sessions import Session, query


@dataclass(frozen=True, slots=True)
class Forgetting:
    """What the standby did not hear of was acknowledged after `since`, and may have been worked on until `until`.

    In seconds since 1970.
    """

    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Acknowledged jobs that are gone, and handlers that ran under claims that are gone."""

    jobs: int
    runs: int


def since_promotion(db: Session, lease: float) -> Forgetting:
    """As the promoted server itself knows: the last transaction that it heard of was committed at `since`."""
    [row] = query(db, "select extract(epoch from pg_last_xact_replay_timestamp()) as since")
    # What was claimed before may be begun as late as the claim's lease ends.
    return Forgetting(float(row["since"]), time.time() + lease)


def forget(seen: Evidence, lag: Forgetting) -> Forgotten:
    """Take out what the lag explains; how much that is."""
    there = {job.id for job in seen.jobs}
    gone = [
        asked.job
        for asked in seen.asked.values()
        if asked.made is not None and asked.at >= lag.since and asked.made not in there
    ]
    for job in gone:
        del seen.asked[job]
    unknown = [run for run in seen.runs if lag.since <= run.start <= lag.until and not known(run, seen)]
    seen.runs = [run for run in seen.runs if run not in unknown]
    return Forgotten(len(gone), len(unknown))


def known(run: Run, seen: Evidence) -> bool:
    """Whether the claim that this run was started by is one that the database remembers."""
    return any(
        begins_a_claim(move) and (move.job, move.epoch) == (run.job, run.epoch) and move.at.timestamp() <= run.start
        for move in seen.moves
    )
