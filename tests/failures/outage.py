"""A service that is down under a thousand jobs, with a circuit breaker and without."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from tests.failures.apps import THRESHOLD
from tests.failures.killing import PROCESSES
from tests.failures.limit import left
from tests.failures.trial import Finding, Site, broken
from tests.sessions import query
from tests.verbs import enqueue_many
from tests.worker.processes import Journal, until


@dataclass(frozen=True, slots=True)
class Seen:
    """What one outage came to. `uncalled`: attempts that were charged without a call."""

    seconds: float
    calls_while_down: int
    uncalled: int
    states: Counter[str]
    over_after: float


def outage(site: Site) -> Finding:
    """The same outage twice: first behind the breaker, then without it."""
    jobs, seconds = site.sizes.called, site.sizes.outage_seconds
    guarded, bare = suffer(site, breaker="on"), suffer(site, breaker="off")
    probes = probes_within(guarded.seconds, seconds / 10)
    return Finding(
        {
            "jobs": f"{jobs:,}",
            "down for": f"{seconds:g} s",
            "calls while down": guarded.calls_while_down,
            "allowed (threshold + probes)": f"{THRESHOLD} + {probes}",
            "attempts lost to the open breaker": guarded.uncalled,
            "completed": f"{guarded.states['completed']:,}",
            "all done after": f"{guarded.over_after:.1f} s",
            "calls while down, without a breaker": f"{bare.calls_while_down:,}",
            "dead, without a breaker": f"{bare.states['dead']:,}",
        },
        broken(
            calls_while_down_are_threshold_and_probes=guarded.calls_while_down <= THRESHOLD + probes,
            no_attempt_is_lost_to_the_open_breaker=guarded.uncalled == 0,
            all_complete_after_it=guarded.states == {"completed": jobs},
            without_a_breaker_there_is_a_difference=bare.calls_while_down > jobs,
        ),
    )


def suffer(site: Site, breaker: str) -> Seen:
    """Jobs meet a service that is down from the first call on, and comes back later."""
    sign = site.folder / f"down-{breaker}"
    journal = Journal(site.folder / f"calls-{breaker}")
    variables = {"BREAKER": breaker, "OUTAGE_SECONDS": str(site.sizes.outage_seconds), "JOURNAL": str(journal.path)}
    with site.at_work() as (db, fleet):
        db.execute("delete from wakeful.finished_job")
        for _ in range(PROCESSES):
            fleet.start(app="tests.failures.apps", concurrency=4, variables=variables).started()
        sign.touch()
        enqueue_many(db, [{"task": "call", "payload": {"sign": str(sign)}} for _ in range(site.sizes.called)])
        since = time.monotonic()
        until(lambda: journal.lines("call"), 120)
        until(lambda: time.monotonic() - since >= site.sizes.outage_seconds)
        sign.unlink()
        seconds = time.monotonic() - since
        until(lambda: left(db) == 0, 120)
        rows = query(db, "select id, state, attempt from wakeful.jobs")
        over_after = time.monotonic() - since
    return judged(journal, rows, seconds, over_after)


def judged(journal: Journal, rows: list[dict[str, object]], seconds: float, over_after: float) -> Seen:
    """What the calls' own lines tell, beside what the database says of the jobs."""
    calls = journal.lines("call")
    by_job = Counter(line["job"] for line in calls)
    return Seen(
        seconds,
        sum(line["down"] for line in calls),
        sum(int(str(row["attempt"])) - by_job[str(row["id"])] for row in rows),
        Counter(str(row["state"]) for row in rows),
        over_after,
    )


def probes_within(seconds: float, open_for: float) -> int:
    """How many probes fall into an outage: after open_for, then after twice as long each time."""
    probes, at = 0, open_for
    while at < seconds:
        probes, at = probes + 1, at * 2 + open_for
    return probes
