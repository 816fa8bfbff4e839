"""With a long history behind it, and plans from when there was none, a call touches as much as before."""

from __future__ import annotations

import pytest

from tests.plans.calls import CALLS
from tests.plans.conftest import Grown
from tests.plans.explain import offences
from tests.sessions import query
from tests.verbs import register, worker_claim


@pytest.mark.parametrize("name", CALLS)
def test_no_full_scan_no_sort_no_walk(grown: Grown, name: str) -> None:
    call = CALLS[name]
    call.prepare(grown.db)
    plans = grown.watcher.watch(call.act)
    assert offences(plans, call.most_rows) == []


@pytest.mark.parametrize("name", [name for name in CALLS if CALLS[name].most_rows < 1000])
def test_the_pages_touched_do_not_grow_with_history(grown: Grown, name: str) -> None:
    call = CALLS[name]
    touched = []
    for _ in range(3):
        call.prepare(grown.db)
        touched.append(grown.watcher.watch(call.act)[-1].buffers)
    # Trees are a level or two higher; ten rows in seven indexes feel that, a walk would be thousands.
    assert min(touched) <= 2 * grown.buffers_before[name] + 150, (touched, grown.buffers_before[name])


def test_one_that_must_run_alone_is_found_without_walking_those_that_need_not(grown: Grown) -> None:
    worker = register(grown.db)
    plans = grown.watcher.watch(lambda db: worker_claim(db, worker, want=1, alone=True))
    assert offences(plans, 100) == []


def test_the_guard_sees_a_full_scan(grown: Grown) -> None:
    plans = grown.watcher.watch(lambda db: query(db, "select count(*) from wakeful.job where payload @> '{\"no\": 1}'"))
    assert offences(plans, 100)
