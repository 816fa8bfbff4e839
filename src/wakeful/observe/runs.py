"""From how an attempt went, and what is written for it, to what is told of it."""

from __future__ import annotations

from collections.abc import Mapping

from wakeful.values.job import Job
from wakeful.values.outcome import Done, Failed, Gone, Outcome
from wakeful.values.run import Run, RunOutcome
from wakeful.values.settlement import Completion, Settlement

_ENDINGS: Mapping[str, RunOutcome] = {"snoozed": "snoozed", "cancelled": "cancelled", "released": "released"}


def run_of(
    job: Job,
    outcome: Outcome,
    settlement: Settlement | None,
    seconds: float,
    *,
    settled: bool = False,
    counters: Mapping[str, float] | None = None,
    fields: Mapping[str, object] | None = None,
) -> Run:
    """`settled`: the job completed itself in a transaction of its own, as far as is known."""
    if isinstance(outcome, Done) or settled:
        return Run(job, "completed", seconds, None, None, None, counters, fields)
    if isinstance(outcome, Gone) or settlement is None or isinstance(settlement, Completion):
        return Run(job, "lost", seconds, None, None, None, counters, fields)
    retry_in = None if settlement.retry_in is None else settlement.retry_in.total_seconds()
    told: RunOutcome = _ENDINGS.get(settlement.outcome) or ("dead" if retry_in is None else "failed")
    code = outcome.error.code if isinstance(outcome, Failed) else None
    return Run(job, told, seconds, code, settlement.message, retry_in, counters, fields)
