"""Settling, renewing and noting: everything that goes through the fence (id, epoch, worker_id)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from wakeful.statements.claim import completions
from wakeful.statements.statement import Row, Statement, nothing
from wakeful.values.settlement import Completion, Ending, Refusal


def complete(worker_id: UUID, done: Sequence[Completion]) -> Statement[list[Refusal]]:
    """Complete jobs; the answer names those that the fence refused."""
    return Statement(
        "select id, refused from wakeful.complete_1(%(worker_id)s::uuid, %(done_ids)s::uuid[],"
        " %(done_epochs)s::bigint[], %(done_results)s::text[])",
        {"worker_id": worker_id, **completions(done)},
        _refusals,
    )


def complete_or_fail(worker_id: UUID, done: Completion) -> Statement[None]:
    """Complete one job in the caller's transaction, which fails with StaleClaim when the fence refuses."""
    return Statement(
        "select wakeful.complete(%(id)s::uuid, %(epoch)s::bigint, %(worker_id)s::uuid, %(result)s::jsonb)",
        {"id": done.id, "epoch": done.epoch, "worker_id": worker_id, "result": done.result},
        lambda _: None,
    )


def settle(worker_id: UUID, endings: Sequence[Ending]) -> Statement[list[Refusal]]:
    """End attempts otherwise than by completion; the answer names those that the fence refused."""
    ordered = sorted(endings, key=lambda ending: ending.id)
    return Statement(
        "select id, refused from wakeful.settle_1(%(worker_id)s::uuid, %(ids)s::uuid[], %(epochs)s::bigint[],"
        " %(outcomes)s::text[], %(codes)s::text[], %(messages)s::text[], %(details)s::text[],"
        " %(retry_ins)s::interval[], %(faults)s::boolean[])",
        {
            "worker_id": worker_id,
            "ids": [ending.id for ending in ordered],
            "epochs": [ending.epoch for ending in ordered],
            "outcomes": [ending.outcome for ending in ordered],
            "codes": [ending.code for ending in ordered],
            "messages": [ending.message for ending in ordered],
            "details": [ending.details for ending in ordered],
            "retry_ins": [ending.retry_in for ending in ordered],
            "faults": [ending.fault for ending in ordered],
        },
        _refusals,
    )


def extend(worker_id: UUID, claims: Sequence[tuple[UUID, int]], lease: timedelta) -> Statement[list[Refusal]]:
    """Renew the own leases of jobs, given by id and epoch."""
    ordered = sorted(claims)
    return Statement(
        "select id, refused from wakeful.extend_1(%(worker_id)s::uuid, %(ids)s::uuid[], %(epochs)s::bigint[],"
        " %(leases)s::interval[])",
        {
            "worker_id": worker_id,
            "ids": [id for id, _ in ordered],
            "epochs": [epoch for _, epoch in ordered],
            "leases": [lease] * len(ordered),
        },
        _refusals,
    )


def accept(worker_id: UUID, id: UUID, epoch: int, *, enough: bool) -> Statement[list[Refusal]]:
    """Confirm a job that was handed over: the worker's lease covers it from now on. `enough`: hand over no more."""
    return Statement(
        "select id, refused from wakeful.accept_1(%(worker_id)s::uuid, array[%(id)s::uuid], array[%(epoch)s::bigint],"
        " %(enough)s::boolean)",
        {"worker_id": worker_id, "id": id, "epoch": epoch, "enough": enough},
        _refusals,
    )


def note(
    worker_id: UUID,
    id: UUID,
    epoch: int,
    *,
    progress: str | None = None,
    saved: str | None = None,
    counters: str | None = None,
) -> Statement[bool]:
    """Write progress, a checkpoint or counters (JSON texts) on a running job; False when the fence refuses."""
    return Statement(
        "select wakeful.note_1(%(worker_id)s::uuid, %(id)s::uuid, %(epoch)s::bigint, %(progress)s::jsonb,"
        " %(saved)s::jsonb, %(counters)s::jsonb)",
        {
            "worker_id": worker_id,
            "id": id,
            "epoch": epoch,
            "progress": progress,
            "saved": saved,
            "counters": counters,
        },
        lambda rows: bool(rows[0][0]),
    )


def settled_as(id: UUID, epoch: int, worker_id: UUID) -> Statement[bool]:
    """Whether this claim completed the job: asked when a COMMIT was left unanswered."""
    return Statement(
        "select wakeful.completed_by_1(%(id)s::uuid, %(epoch)s::bigint, %(worker_id)s::uuid)",
        {"id": id, "epoch": epoch, "worker_id": worker_id},
        lambda rows: bool(rows[0][0]),
    )


def _refusals(rows: Sequence[Row]) -> list[Refusal]:
    return [Refusal(id, reason) for id, reason in rows]


def notes(worker_id: UUID, told: Sequence[tuple[UUID, int, str | None, str | None]]) -> Statement[None]:
    """Write progress and counters (JSON texts) on running jobs, each by id and epoch; the fence passes over others."""
    ids, epochs, progress, counters = zip(*told, strict=True)
    return Statement(
        "select wakeful.note_1(%(worker_id)s::uuid, n.id, n.epoch, n.progress::jsonb, null, n.counters::jsonb)"
        " from unnest(%(ids)s::uuid[], %(epochs)s::bigint[], %(progress)s::text[], %(counters)s::text[])"
        " n(id, epoch, progress, counters)",
        {
            "worker_id": worker_id,
            "ids": list(ids),
            "epochs": list(epochs),
            "progress": list(progress),
            "counters": list(counters),
        },
        nothing,
    )
