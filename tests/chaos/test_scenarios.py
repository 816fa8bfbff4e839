"""Some of the faults of `make chaos`, for a moment each: every invariant holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.evidence import WITNESS
from tests.chaos.faults import FAULTS
from tests.chaos.report import failures
from tests.chaos.scenario import Effort, play, play_on
from tests.chaos.stage import stage_on
from tests.sessions import session
from wakeful.testing import Database

SEED = 7


@pytest.mark.parametrize(("name", "times"), [("kill-between", 2), ("stop", 1), ("cut", 20)])
def test_a_fault_of_workers_or_their_links_breaks_nothing(
    database: Database, tmp_path: Path, name: str, times: int
) -> None:
    with session(database.dsn) as db:
        db.execute(WITNESS.encode())
    with stage_on(database.dsn, tmp_path, SEED) as stage:
        verdict = play_on(stage, FAULTS[name], Effort(times=times))
    assert not failures([verdict])
    assert verdict.injected


def test_a_database_that_is_killed_breaks_nothing() -> None:
    verdict = play(FAULTS["postgres-killed"], SEED, Effort(times=2))
    assert not failures([verdict])
    assert verdict.injected == 2


@pytest.mark.parametrize(("name", "shows"), [("listener-killed", False), ("none", True)])
def test_a_fault_that_was_never_done_shows_nothing(database: Database, tmp_path: Path, name: str, shows: bool) -> None:
    with session(database.dsn) as db:
        db.execute(WITNESS.encode())
    with stage_on(database.dsn, tmp_path, SEED) as stage:
        verdict = play_on(stage, FAULTS[name], Effort(times=0))
    assert (not failures([verdict])) is shows, verdict.broken
