"""Metrics in the database: folded by workers, read by anyone who may look."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

from wakeful.statements.read import decoded
from wakeful.statements.statement import Row, Statement, nothing
from wakeful.values.report import TaskMetrics, Usage, metrics_summary

_SINCE = "(select wakeful.now() - %(span)s::interval)"

_TASKS = f"""select task, completed, failed, dead, others, average_seconds, run_p50, run_p95, run_p99,
 wait_p50, wait_p95, wait_p99 from wakeful.task_metrics({_SINCE}, %(task)s::text)"""

_SUMMARY = f"""select jobs, succeeded, failed, seconds, counters::text
from wakeful.metrics_summary({_SINCE}, %(task)s::text)"""

_RUNS = """select n.at, (select m.jobs from wakeful.metrics_summary(coalesce(%(since)s::timestamptz, n.at)) m)
from (select wakeful.now() as at) n"""

_USAGES = """select day, tenant, task, outcome, runs, seconds from wakeful.usages
where (%(since)s::date is null or day >= %(since)s::date)
  and (%(tenant)s::text is null or tenant = %(tenant)s::text)
order by day, tenant, task, outcome"""


def fold() -> Statement[None]:
    """Fold what settlements left behind into the sums."""
    return Statement("select wakeful.fold_metrics()", {}, nothing)


def by_task(span: timedelta | None = None, task: str | None = None) -> Statement[list[TaskMetrics]]:
    """Each task's runs by outcome and percentiles, of the last `span` (None: of all that is kept)."""
    return Statement(_TASKS, {"span": span, "task": task}, lambda rows: [TaskMetrics(*row) for row in rows])


def runs_since(since: datetime | None) -> Statement[tuple[datetime, int]]:
    """The database's time, and how many attempts ended since then (None: since now)."""
    return Statement(_RUNS, {"since": since}, lambda rows: (rows[0][0], int(rows[0][1])))


def summary(span: timedelta | None = None, task: str | None = None) -> Statement[dict[str, Any]]:
    """The fleet's totals, under a simpler worker's names."""
    return Statement(_SUMMARY, {"span": span, "task": task}, _summary)


def usages(since: date | None = None, tenant: str | None = None) -> Statement[list[Usage]]:
    """What tenants used, by UTC day."""
    return Statement(_USAGES, {"since": since, "tenant": tenant}, lambda rows: [Usage(*row) for row in rows])


def _summary(rows: Sequence[Row]) -> dict[str, Any]:
    jobs, succeeded, failed, seconds, counters = rows[0]
    return metrics_summary(jobs, succeeded, failed, seconds, decoded(counters))
