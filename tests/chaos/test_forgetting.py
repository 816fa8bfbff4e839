"""What an asynchronous standby never heard of is counted apart, and hides nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

from tests.chaos.evidence import RUNNING, Evidence, Job, Move
from tests.chaos.forgetting import Forgetting, Forgotten, forget
from tests.chaos.history import Asked, Run
from tests.chaos.invariants import broken

JOB, WORKER = uuid4(), uuid4()
LAG = Forgetting(since=100.0, until=110.0)


def claim_at(seconds: float) -> Move:
    """The claim that the promoted server knows of."""
    return Move(2, JOB, "quick", 1, RUNNING, 1, datetime.fromtimestamp(seconds, UTC), worker=WORKER)


def acknowledged(at: float) -> Evidence:
    """A job that is gone."""
    return Evidence(asked={JOB: Asked(JOB, "quick", JOB, at)}, shown={})


def completed(*runs: Run, claimed: float) -> Evidence:
    """A job that came to its end, after these runs."""
    return Evidence(
        asked={JOB: Asked(JOB, "quick", JOB, 50.0)},
        runs=list(runs),
        jobs=[Job(JOB, "quick", "completed", worker_id=WORKER, result={"epoch": 1})],
        moves=[claim_at(claimed)],
        shown={"completed": 1},
    )


def test_a_job_of_the_lag_is_counted() -> None:
    seen = acknowledged(at=100.5)
    assert forget(seen, LAG) == Forgotten(jobs=1, runs=0)
    assert broken(seen) == {}


def test_a_job_that_the_standby_must_have_heard_of_stays_lost() -> None:
    seen = acknowledged(at=99.5)
    assert forget(seen, LAG) == Forgotten(jobs=0, runs=0)
    assert {1, 2} <= broken(seen).keys()


def test_a_run_under_a_claim_that_is_gone_is_counted() -> None:
    seen = completed(Run(JOB, 1, 1, 7, 101.0, 101.1), Run(JOB, 1, 1, 8, 106.0, 106.1), claimed=105.0)
    assert forget(seen, LAG) == Forgotten(jobs=0, runs=1)
    assert broken(seen) == {}


def test_two_runs_under_a_claim_that_is_known_stay_doubled() -> None:
    seen = completed(Run(JOB, 1, 1, 7, 105.5, 105.6), Run(JOB, 1, 1, 8, 106.0, 106.1), claimed=105.0)
    assert forget(seen, LAG) == Forgotten(jobs=0, runs=0)
    assert 8 in broken(seen)
