"""What is told of a scenario in which something is broken."""

from __future__ import annotations

import pytest

from tests.chaos.report import failures
from tests.chaos.scenario import Verdict


@pytest.mark.parametrize(
    ("through", "again"),
    [(None, "--only kill --seed 7"), ("pgbouncer", "--only kill --seed 7 --through pgbouncer")],
)
def test_a_failure_tells_how_to_see_it_again(through: str | None, again: str) -> None:
    [told] = failures([Verdict("kill", 7, through, broken={15: ["2 deadlocks"]})])
    assert told == f"kill: invariant 15: 2 deadlocks (make chaos ARGS='{again}')"
