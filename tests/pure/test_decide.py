"""From how an attempt went to what is written."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from wakeful.settle.decide import decide
from wakeful.values.job import Job
from wakeful.values.outcome import AttemptError, Cancelled, Done, Failed, Gone, Outcome, Released, Snoozed
from wakeful.values.retry import ByFunction, Fixed, Steps
from wakeful.values.settlement import Completion, Ending, Settlement

ID, WORKER = UUID(int=1), UUID(int=2)
ERROR = AttemptError("boom", "it broke", "{}")


def job(attempt: int = 1, max_attempts: int = 5) -> Job:
    return Job(
        key=ID.bytes,
        task="t",
        queue="default",
        payload="{}",
        attempt=attempt,
        max_attempts=max_attempts,
        epoch=7,
        rank=0,
        ready_wire=bytes(8),
        created_wire=bytes(8),
        started_wire=bytes(8),
        correlation_key=ID.bytes,
        parent_key=None,
        origin_key=None,
        tenant=None,
        created_by=None,
        metadata=None,
        attempts=None,
        saved=None,
        worker_id=WORKER,
    )


def failed(retry_in: float | None) -> Ending:
    wait = None if retry_in is None else timedelta(seconds=retry_in)
    return Ending(ID, 7, "failed", "boom", "it broke", "{}", wait)


@pytest.mark.parametrize(
    ("outcome", "settlement"),
    [
        (Done("42"), Completion(ID.bytes, 7, "42")),
        (Done(None), Completion(ID.bytes, 7, None)),
        (Failed(ERROR), failed(30)),
        (Failed(ERROR, retry_in=timedelta(seconds=3)), failed(3)),
        (Failed(ERROR, retry_in=timedelta(0)), failed(0)),
        (Failed(ERROR, final=True), failed(None)),
        (Snoozed(timedelta(9), "later"), Ending(ID, 7, "snoozed", message="later", retry_in=timedelta(9))),
        (Cancelled("unwanted"), Ending(ID, 7, "cancelled", message="unwanted")),
        (Released(), Ending(ID, 7, "released", retry_in=timedelta(0))),
        (Gone(), None),
    ],
)
def test_each_outcome_has_its_settlement(outcome: Outcome, settlement: Settlement | None) -> None:
    assert decide(job(), outcome, Fixed(30)) == settlement


def test_the_last_attempt_has_no_next_one_whatever_it_asks_for() -> None:
    assert decide(job(5), Failed(ERROR), Fixed(30)) == failed(None)
    assert decide(job(5), Failed(ERROR, retry_in=timedelta(3)), Fixed(30)) == failed(None)


def test_a_policy_that_has_no_more_steps_ends_it() -> None:
    assert decide(job(1), Failed(ERROR), Steps([0, 30])) == failed(30)
    assert decide(job(2), Failed(ERROR), Steps([0, 30])) == failed(None)


def test_a_policy_that_raises_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    def broken(attempt: int) -> int:
        raise ZeroDivisionError

    settlement = decide(job(), Failed(ERROR), ByFunction(broken))
    assert isinstance(settlement, Ending)
    assert settlement.retry_in is not None
    assert "retry_policy_failed" in caplog.text
