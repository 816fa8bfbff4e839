"""With a long history behind it, and plans from when there was none, a call touches as much as before."""

from __future__ import annotations

from tests.plans.calls import CALLS
from tests.plans.conftest import Grown
from tests.plans.explain import offences
from tests.sessions import query


def test_no_call_scans_sorts_or_walks_over_history(grown: Grown) -> None:
    watcher = grown.watcher
    offended, grew = {}, {}
    for name, call in CALLS.items():
        touched = []
        for _ in range(3):
            call.prepare(watcher.db)
            plans = watcher.watch(call.act)
            touched.append(plans[-1].buffers)
        offended[name] = offences(plans, call.most_rows)
        # Trees are a level or two higher; ten rows in seven indexes feel that, a walk would be thousands.
        if call.bounded and min(touched) > 2 * grown.buffers_before[name] + 150:
            grew[name] = (grown.buffers_before[name], touched)
    assert {name: found for name, found in offended.items() if found} == {}
    assert grew == {}
    # Else all this would prove nothing.
    full = watcher.watch(lambda db: query(db, "select count(*) from wakeful.job where payload @> '{\"no\": 1}'"))
    assert offences(full, 100)
