"""A limit of three on each key, four processes, killed at random: never a fourth, and nothing stuck afterwards."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import chain
from typing import Any

from tests.failures.apps import LIMIT
from tests.failures.killing import Doomed
from tests.failures.trial import Finding, Site, broken
from tests.sessions import Session, query, scalar
from tests.verbs import enqueue_many
from tests.worker.processes import Journal, until

KEYS = 4
AT_ONCE = 5_000


def limit(site: Site) -> Finding:
    """Jobs of four accounts, at most three of each at once, while workers are killed."""
    jobs = site.sizes.limited
    with site.at_work() as (db, fleet):
        doomed = Doomed(site, fleet, concurrency=4)
        for start in range(0, jobs, AT_ONCE):
            add(db, site, min(AT_ONCE, jobs - start))
        doomed.kill_until(lambda: left(db) < jobs // 10)
        until(lambda: left(db) == 0, 300)
        # Every key has its slots back: as many as may run at once are done once more.
        add(db, site, KEYS * LIMIT)
        # What the last ones marked as free is taken away by whoever looks next.
        until(lambda: left(db) == 0 and marks(db) <= KEYS, 60)
        states = Counter(row["state"] for row in query(db, "select state from wakeful.jobs"))
        stuck = left(db)
    runs = runs_in(site.journal)
    lost = outlived(runs, doomed.died)
    most = most_at_once({run: told for run, told in runs.items() if run not in lost}, doomed.died)
    return Finding(
        {
            "jobs": f"{jobs:,}",
            "kills": len(doomed.died),
            "starts": f"{len(runs):,}",
            "of these by a living process that had lost its lease": len(lost),
            "most of one key at once": most,
            "completed": f"{states['completed']:,}",
            "dead (three crashes)": states["dead"],
            "stuck": stuck,
        },
        broken(
            never_more_than_three_of_a_key_at_once=most <= LIMIT,
            the_limit_is_made_use_of=most == LIMIT,
            every_job_is_over_once=sum(states.values()) == jobs + KEYS * LIMIT,
            nothing_but_completed_and_dead=states.keys() <= {"completed", "dead"},
            nothing_is_left_behind=stuck == 0,
        ),
    )


def add(db: Session, site: Site, jobs: int) -> None:
    """So many jobs, of each account in turn, that take up to 20 ms."""
    enqueue_many(
        db,
        [
            {"task": "limited", "payload": {"account": {"id": f"k{n % KEYS}"}, "seconds": site.dice.random() / 50}}
            for n in range(jobs)
        ],
    )


def left(db: Session) -> int:
    """How many live jobs there are."""
    return int(scalar(db, "select count(*) from wakeful.job"))


def marks(db: Session) -> int:
    """How many slots are marked as free."""
    return int(scalar(db, "select count(*) from wakeful.freed_slot"))


Runs = dict[tuple[str, int], dict[str, Any]]
"""What is told of each run, by job and epoch: key, process, and the moments of its start and end."""


def runs_in(journal: Journal) -> Runs:
    """The runs that the lines tell of."""
    runs: Runs = defaultdict(dict)
    for line in journal.lines():
        runs[line["job"], line["epoch"]] |= {"key": line["key"], "pid": line["pid"], line["event"]: line["at"]}
    return runs


def outlived(runs: Runs, died: Mapping[int, float]) -> set[tuple[str, int]]:
    """The runs that went on after their job had been taken from a living process: its lease had lapsed."""
    newest: Counter[str] = Counter()
    for job, epoch in runs:
        newest[job] = max(newest[job], epoch)
    return {(job, epoch) for (job, epoch), run in runs.items() if epoch < newest[job] and run["pid"] not in died}


def most_at_once(runs: Runs, died: Mapping[int, float]) -> int:
    """The most jobs of one key that ran at the same moment. A job whose process was killed has run until then."""
    moments: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for run in runs.values():
        moments[run["key"]] += [(run["start"], 1), (run.get("end", died.get(run["pid"], float("inf"))), -1)]
    return max(chain.from_iterable(running(events) for events in moments.values()), default=0)


def running(moments: list[tuple[float, int]]) -> list[int]:
    """How many run after each moment."""
    count, counts = 0, []
    for _, change in sorted(moments):
        count += change
        counts.append(count)
    return counts
