"""A session whose plans were cached while the tables were empty, and then the history behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.plans.calls import CALLS, hang_up, warm
from tests.plans.explain import Watcher
from tests.plans.history import load
from tests.sessions import empty, session
from wakeful.testing import Database


@dataclass(frozen=True, slots=True)
class Grown:
    """The session with the old plans, and the pages that each call touched while there was no history."""

    watcher: Watcher
    buffers_before: dict[str, int]


@pytest.fixture(params=["never analysed", "vacuumed while empty"])
def grown(request: pytest.FixtureRequest, database: Database) -> Iterator[Grown]:
    with session(database.dsn) as old, session(database.dsn) as loader, ExitStack() as stack:
        stack.callback(hang_up)
        for _ in range(7):
            warm(old)
        if request.param == "vacuumed while empty":
            # So autovacuum leaves an idle queue: the next plan is made by a planner who knows that there is nothing.
            loader.execute("vacuum analyze")
            warm(old)
        watcher = Watcher(old)
        before = {}
        for name, call in CALLS.items():
            call.prepare(old)
            before[name] = watcher.watch(call.act)[-1].buffers
        empty(loader)
        load(loader)
        yield Grown(watcher, before)
