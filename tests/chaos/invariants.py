"""The sixteen invariants, each a pure function from the evidence to the sentences that say how it is broken."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TypeAlias, TypeVar
from uuid import UUID

from tests.chaos.evidence import RUNNING, Evidence, Job, Move

Checker: TypeAlias = Callable[[Evidence], Iterator[str]]
K = TypeVar("K")
V = TypeVar("V")

# Ends of an attempt that take the job from its holder, or give it back: another start is owed to nobody's failure.
TAKEN = {"lapsed", "crashed"}
UNCHARGED = {"released", "snoozed"}
HISTORY_KEEPS = 100
EVERY = timedelta(seconds=1)


def acknowledged_jobs_have_one_end(seen: Evidence) -> Iterator[str]:
    """1: an acknowledged enqueue has exactly one final state; nothing is there that nobody asked for."""
    rows = Counter(job.id for job in seen.jobs)
    final = Counter(job.id for job in seen.jobs if not job.live)
    for asked in seen.asked.values():
        if asked.made is not None and (rows[asked.made], final[asked.made]) != (1, 1):
            yield f"job {asked.made} was acknowledged: {rows[asked.made]} rows, {final[asked.made]} of them final"
    for job in seen.jobs:
        if job.id not in seen.asked and not (job.metadata or {}).get("schedule"):
            yield f"job {job.id} is there, and nobody asked for it"


def unanswered_enqueues_make_one_job_at_most(seen: Evidence) -> Iterator[str]:
    """2: an enqueue whose answer was lost made no job or one; sent again under its id, one."""
    rows = Counter(job.id for job in seen.jobs)
    for asked in seen.asked.values():
        if rows[asked.job] > 1:
            yield f"job {asked.job} was sent {asked.sent} times, and is there {rows[asked.job]} times"
        elif asked.made == asked.job and rows[asked.job] == 0:
            yield f"job {asked.job} was sent {asked.sent} times, acknowledged, and is not there"


def a_claim_is_settled_once_and_by_its_holder(seen: Evidence) -> Iterator[str]:
    """3: at most one accepted settlement for a (job, epoch), and only by the current one."""
    ends = Counter((move.job, move.epoch) for move in seen.moves if ends_a_claim(move))
    for (id, epoch), count in ends.items():
        if count > 1:
            yield f"epoch {epoch} of job {id} was settled {count} times"
    latest = {move.job: move for move in seen.moves if begins_a_claim(move)}
    for job in seen.jobs:
        claim = latest.get(job.id)
        if job.state != "completed" or claim is None:
            continue
        if (claim.epoch, claim.worker) != (job.epoch, job.worker_id):
            yield f"job {job.id} was completed at epoch {job.epoch}, and last claimed at {claim.epoch}"
        if job.result and job.result.get("epoch", job.epoch) != job.epoch:
            yield f"job {job.id} has the result of epoch {job.result['epoch']}, and epoch {job.epoch} held it"


def epochs_only_grow(seen: Evidence) -> Iterator[str]:
    """4: no claim has an epoch that is not above all before it."""
    for job, moves in by_job(seen.moves).items():
        for before, after in pairwise(moves):
            if after.epoch < before.epoch or (begins_a_claim(after) and after.epoch <= before.epoch):
                yield f"the epoch of job {job} went from {before.epoch} to {after.epoch}"


def leases_do_not_overlap(seen: Evidence) -> Iterator[str]:
    """5: nobody is given a job that another holds, and none is taken away before its lease ends."""
    for move in seen.moves:
        if begins_a_claim(move) and move.before == RUNNING:
            yield f"job {move.job} was claimed at epoch {move.epoch} while it was held"
        if move.outcome in TAKEN and move.lease is not None and move.lease > move.at:
            left = (move.lease - move.at).total_seconds()
            yield f"job {move.job} was taken from its holder {left:.1f} s before the lease ended"


def effects_happen_with_the_completion(seen: Evidence) -> Iterator[str]:
    """6: one transactional effect for a completed job, of the epoch that completed it; none otherwise."""
    effects = group((job, epoch) for job, epoch in seen.effects)
    for job in seen.jobs:
        if job.task == "effect":
            wanted = [job.epoch] if job.state == "completed" else []
            if effects.get(job.id, []) != wanted:
                yield f"job {job.id} is {job.state}, and has effects of epochs {effects.get(job.id, [])}"


def starts_are_limited(seen: Evidence) -> Iterator[str]:
    """7: charged starts are at most max_attempts, and a job that brings workers down is charged too."""
    most = {job.id: job.max_attempts for job in seen.jobs}
    for job in seen.jobs:
        if job.attempt > job.max_attempts:
            yield f"job {job.id} had {job.attempt} of {job.max_attempts} starts"
    for run in seen.runs:
        if run.attempt > most.get(run.job, run.attempt):
            yield f"job {run.job} was started as attempt {run.attempt} of {most[run.job]}"


def duplicate_starts_are_owed_to_losses(seen: Evidence) -> Iterator[str]:
    """8: no claim is started twice; a job starts again only after it failed, or its holder lost it."""
    for (job, epoch), count in Counter((run.job, run.epoch) for run in seen.runs).items():
        if count > 1:
            yield f"epoch {epoch} of job {job} was started {count} times"
    starts = Counter(run.job for run in seen.runs)
    for row in seen.jobs:
        outcomes = Counter(str(entry["outcome"]) for entry in row.attempts)
        lost = sum(outcomes[name] for name in TAKEN | {"released"})
        if lost and not seen.ownership_losses:
            how = ", ".join(sorted(outcomes.keys() & (TAKEN | {"released"})))
            yield f"job {row.id} was lost {lost} times by its holder ({how}), and nothing was done to anyone"
        if len(row.attempts) < HISTORY_KEEPS and starts[row.id] > sum(outcomes.values()) + 1:
            yield f"job {row.id} was started {starts[row.id]} times, and {sum(outcomes.values())} attempts ended"


def final_is_final(seen: Evidence) -> Iterator[str]:
    """9: a job that is over does not come back, except by an audited act."""
    for job, moves in by_job(seen.moves).items():
        after_end = [later for earlier, later in pairwise(moves) if earlier.after is None]
        if after_end and job not in seen.audited:
            yield f"job {job} was over, and moved again"
    live = {job.id for job in seen.jobs if job.live}
    for job in {job.id for job in seen.jobs if not job.live} & live:
        yield f"job {job} is over, and live"


def holders_keep_to_their_slots(seen: Evidence) -> Iterator[str]:
    """10: no process runs more handlers than it has slots, no limit has more holders; in the end there are none."""
    yield from holders_above_limits(seen)
    changes = group(
        (run.pid, change) for run in seen.runs if run.end is not None for change in ((run.start, 1), (run.end, -1))
    )
    for pid, moments in changes.items():
        running = most = 0
        for _, change in sorted(moments):
            running += change
            most = max(most, running)
        if most > seen.slots:
            yield f"process {pid} ran {most} handlers at once, and has {seen.slots} slots"
    for job in seen.jobs:
        if job.state == "running":
            yield f"job {job.id} is held in the end"


def holders_above_limits(seen: Evidence) -> Iterator[str]:
    """Where more jobs of a limited task were held at once than its limit allows."""
    held: dict[str, set[UUID]] = defaultdict(set)
    for move in seen.moves:
        holders = held[move.task]
        if begins_a_claim(move):
            holders.add(move.job)
            if len(holders) > seen.limits.get(move.task, len(holders)):
                yield f"{len(holders)} jobs of {move.task} were held at once, {seen.limits[move.task]} at most"
        else:
            holders.discard(move.job)


def keys_have_one_live_row(seen: Evidence) -> Iterator[str]:
    """11: of a (task, dedup_key) at most one row is live, at any moment."""
    live: dict[tuple[str, str], set[UUID]] = defaultdict(set)
    for move in seen.moves:
        if move.dedup_key is None:
            continue
        alike = live[move.task, move.dedup_key]
        if move.after is None:
            alike.discard(move.job)
        elif move.before is None:
            alike.add(move.job)
            if len(alike) > 1:
                yield f"{len(alike)} live jobs have the key {move.dedup_key}"


def slots_make_one_job(seen: Evidence) -> Iterator[str]:
    """12: each slot of a schedule makes one job, and none is left out."""
    told = [job.metadata for job in seen.jobs if job.metadata and "slot" in job.metadata]
    for schedule, slots in group((meta["schedule"], meta["slot"]) for meta in told).items():
        for slot, count in Counter(slots).items():
            if count > 1:
                yield f"slot {slot} of {schedule} made {count} jobs"
        moments = sorted({datetime.fromisoformat(slot) for slot in slots})
        for before, after in pairwise(moments):
            if after - before != EVERY:
                yield f"{schedule} made no job between {before} and {after}"


def everything_drains(seen: Evidence) -> Iterator[str]:
    """13: after healing all that was asked for comes to an end: no wedge."""
    left = [job for job in seen.jobs if job.live and job.id in seen.asked]
    if left or not seen.drained:
        yield f"{len(left)} jobs were left: {Counter((job.task, job.state) for job in left)}"


def shown_counts_are_true(seen: Evidence) -> Iterator[str]:
    """14: the counts that are shown are those of the rows."""
    counted = Counter(job.state for job in seen.jobs)
    for state, shown in seen.shown.items():
        if shown != counted[state]:
            yield f"{shown} {state} jobs are shown, and there are {counted[state]}"


def no_deadlock_reaches_anyone(seen: Evidence) -> Iterator[str]:
    """15: no transaction was ended by a deadlock."""
    refused = sum(error == "40P01" for asked in seen.asked.values() for error in asked.refusals)
    if seen.deadlocks or refused:
        yield f"{seen.deadlocks + refused} deadlocks"


def histories_replay_to_their_rows(seen: Evidence) -> Iterator[str]:
    """16: a job's history of attempts, replayed, gives its epoch, its count of starts and its state."""
    for job in seen.jobs:
        if len(job.attempts) >= HISTORY_KEEPS:
            continue
        yield from replayed(job)


def replayed(job: Job) -> Iterator[str]:
    """How a row differs from what its history tells."""
    epochs = [int(entry["epoch"]) for entry in job.attempts]
    # What is completed, or running, is no entry of the history but the row itself.
    epochs += [job.epoch] if job.state in ("completed", "running") else []
    # A start that was never charged leaves its number to the next one.
    if epochs != list(range(1, job.epoch + 1)):
        yield f"job {job.id} is at epoch {job.epoch}, and its history tells of {epochs}"
    outcomes = [str(entry["outcome"]) for entry in job.attempts]
    charged = sum(name in ("failed", "lapsed") for name in outcomes) + (job.state in ("completed", "running"))
    at_most = charged + outcomes.count("crashed")
    if not charged <= job.attempt <= at_most and job.state != "cancelled":
        yield f"job {job.id} counts {job.attempt} starts, and its history {charged} to {at_most}"
    if job.state == "dead" and (not outcomes or outcomes[-1] not in ("failed", "crashed", "lapsed")):
        yield f"job {job.id} is dead after {outcomes[-1:]}"


INVARIANTS: dict[int, Checker] = dict(
    enumerate(
        [
            acknowledged_jobs_have_one_end,
            unanswered_enqueues_make_one_job_at_most,
            a_claim_is_settled_once_and_by_its_holder,
            epochs_only_grow,
            leases_do_not_overlap,
            effects_happen_with_the_completion,
            starts_are_limited,
            duplicate_starts_are_owed_to_losses,
            final_is_final,
            holders_keep_to_their_slots,
            keys_have_one_live_row,
            slots_make_one_job,
            everything_drains,
            shown_counts_are_true,
            no_deadlock_reaches_anyone,
            histories_replay_to_their_rows,
        ],
        start=1,
    )
)


def broken(seen: Evidence) -> dict[int, list[str]]:
    """The invariants that do not hold, and how."""
    found = {number: list(checker(seen)) for number, checker in INVARIANTS.items()}
    return {number: sentences for number, sentences in found.items() if sentences}


def begins_a_claim(move: Move) -> bool:
    """Whether this move gave the job to someone."""
    return move.after == RUNNING


def ends_a_claim(move: Move) -> bool:
    """Whether this move took it from whoever held it."""
    return move.before == RUNNING and move.after != RUNNING


def by_job(moves: Iterable[Move]) -> dict[UUID, list[Move]]:
    """The moves of each job, in their order."""
    return group((move.job, move) for move in moves)


def group(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key."""
    found: dict[K, list[V]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found
