"""A hundred starts a second, ten of them at once, over four processes that are killed at random."""

from __future__ import annotations

from collections.abc import Iterable

from tests.failures.apps import BURST, RATE
from tests.failures.killing import Doomed
from tests.failures.limit import left
from tests.failures.trial import Finding, Site, broken
from tests.verbs import enqueue_many
from tests.worker.processes import until


def rate(site: Site) -> Finding:
    """No second, wherever it begins, has more starts than the rate and the burst."""
    jobs = site.sizes.rated
    with site.at_work() as (db, fleet):
        doomed = Doomed(site, fleet, concurrency=4)
        enqueue_many(db, [{"task": "rated"} for _ in range(jobs)])
        doomed.kill_until(lambda: left(db) < jobs // 10)
        until(lambda: left(db) == 0, 300)
    lines = site.journal.lines("start")
    let_through = most_in_a_second(line["let_through"] for line in lines)
    begun = most_in_a_second(line["at"] for line in lines)
    span = max(line["at"] for line in lines) - min(line["at"] for line in lines)
    return Finding(
        {
            "jobs": f"{jobs:,}",
            "kills": len(doomed.died),
            "starts": f"{len(lines):,}",
            "seconds": f"{span:.1f}",
            "most let through in a sliding second": let_through,
            "most begun in a sliding second, by the handlers' clock": begun,
            "allowed": RATE + BURST,
        },
        broken(
            no_second_has_more_than_rate_and_burst=let_through <= RATE + BURST,
            the_rate_is_made_use_of=let_through > RATE / 2,
        ),
    )


def most_in_a_second(moments: Iterable[float]) -> int:
    """The most moments in any second, wherever it begins."""
    ordered, first, most = sorted(moments), 0, 0
    for last, moment in enumerate(ordered):
        while moment - ordered[first] >= 1:
            first += 1
        most = max(most, last - first + 1)
    return most
