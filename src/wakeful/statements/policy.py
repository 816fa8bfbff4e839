"""What is said about breakers, tasks and queues, and calls that a breaker watches."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import UUID

from wakeful.statements.statement import Row, Statement, nothing
from wakeful.values.policy import BreakerPolicy, Policies
from wakeful.values.report import BreakerReport, Entry


def declare(policies: Policies) -> Statement[None]:
    """Say what a worker's code says; what is the same already writes nothing."""
    return Statement(
        "select wakeful.declare_1(%(tasks)s::text[], %(breakers)s::jsonb, %(task_policies)s::jsonb,"
        " %(queue_policies)s::jsonb)",
        {"tasks": list(policies.tasks), **policies.as_json()},
        nothing,
    )


def enter(name: str, holder: UUID, epoch: int | None, policy: BreakerPolicy) -> Statement[Entry]:
    """Ask a breaker whether a call may be made. `epoch` None: by someone outside of any job.

    `policy` holds where nobody has declared the breaker so far.
    """
    said = policy.said()
    return Statement(
        "select wait, listens, probing from wakeful.enter_breaker_1("
        "%(name)s::text, %(holder)s::uuid, %(epoch)s::bigint, policy => %(policy)s::jsonb)",
        {"name": name, "holder": holder, "epoch": epoch, "policy": json.dumps(said) if said else None},
        lambda rows: Entry(*rows[0]),
    )


def leave(name: str, holder: UUID, succeeded: bool | None, took: timedelta, probing: bool) -> Statement[None]:
    """Tell a breaker how a call went; None: that says nothing of the service."""
    return Statement(
        "select wakeful.leave_breaker_1(%(name)s::text, %(holder)s::uuid, %(succeeded)s::boolean, %(took)s::interval,"
        " %(probing)s::boolean)",
        {"name": name, "holder": holder, "succeeded": succeeded, "took": took, "probing": probing},
        nothing,
    )


def breakers() -> Statement[list[BreakerReport]]:
    """All breakers, those that are not closed first."""
    return Statement(
        "select name, state, failure_count, success_count, threshold, last_failure_at, opened_at, half_opened_at,"
        " next_probe_at, updated_at, tasks from wakeful.breakers order by state = 'closed', name",
        {},
        lambda rows: [_report(row) for row in rows],
    )


def trip(name: str, length: timedelta | None, actor: str | None, reason: str | None) -> Statement[None]:
    """Open a breaker by hand."""
    return Statement(
        "select wakeful.trip_breaker(%(name)s::text, %(length)s::interval, %(actor)s::text, %(reason)s::text)",
        {"name": name, "length": length, "actor": actor, "reason": reason},
        nothing,
    )


def reset(name: str, actor: str | None, reason: str | None) -> Statement[None]:
    """Close a breaker by hand."""
    return Statement(
        "select wakeful.reset_breaker(%(name)s::text, %(actor)s::text, %(reason)s::text)",
        {"name": name, "actor": actor, "reason": reason},
        nothing,
    )


def _report(row: Row) -> BreakerReport:
    return BreakerReport(*(*row[:10], tuple(row[10])))
