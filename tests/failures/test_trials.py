"""The trials at their short size, as part of the suite; `make proof-failures` runs them at full size."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failures.limit import running
from tests.failures.outage import probes_within
from tests.failures.rate import most_in_a_second
from tests.failures.sizes import SHORT
from tests.failures.trial import Site
from tests.failures.trials import TRIALS
from wakeful.testing import Database


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIALS)
def test_it_holds(name: str, database: Database, tmp_path: Path) -> None:
    finding = TRIALS[name](Site(database.dsn, tmp_path, SHORT))
    assert not finding.broken, dict(finding.seen)


def test_the_measures_are_right() -> None:
    assert running([(1, 1), (2, 1), (2.5, -1), (3, 1), (3, -1)]) == [1, 2, 1, 0, 1]
    assert most_in_a_second([0, 0.1, 0.9, 1.0, 1.05, 3]) == 4
    assert [probes_within(seconds, 2) for seconds in (1, 3, 7, 20)] == [0, 1, 2, 3]
