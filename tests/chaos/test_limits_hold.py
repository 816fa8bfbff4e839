"""A limit of three, four processes, some of them killed: never a fourth, and nothing stuck afterwards."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from functools import partial
from uuid import UUID

from tests.chaos.verdict import all_over
from tests.effort import times
from tests.sessions import Session, scalar
from tests.verbs import enqueue_many
from tests.worker.processes import Fleet, Journal, until

LIMIT = 3


def most_at_once(journal: Journal, killed: dict[int, float]) -> int:
    """The most jobs of one tenant that ran at the same moment, by their own fsynced lines.

    A job whose process was killed has run until then.
    """
    runs: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    tenants: dict[tuple[str, int], str] = {}
    pids: dict[tuple[str, int], int] = {}
    for line in journal.lines():
        key = (line["job"], line["epoch"])
        runs[key][line["event"]] = line["at"]
        tenants[key], pids[key] = line["tenant"], line["pid"]
    moments: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for key, run in runs.items():
        end = run.get("end", killed.get(pids[key], float("inf")))
        moments[tenants[key]] += [(run["start"], 1), (end, -1)]
    most = 0
    for events in moments.values():
        running = 0
        for _, change in sorted(events):
            running += change
            most = max(most, running)
    return most


def test_never_more_than_three_at_once_however_workers_die(fleet: Fleet, journal: Journal, db: Session) -> None:
    chance, killed = random.Random(4), dict[int, float]()
    jobs = times(300)
    workers = [fleet.start(lease=2, concurrency=4).started() for _ in range(4)]
    made = enqueue_many(
        db,
        [{"task": "limited", "tenant": f"k{n % 2}", "payload": {"seconds": chance.random() / 50}} for n in range(jobs)],
    )
    ids: list[UUID] = [row["id"] for row in made]
    for round in range(3):
        enough = (round + 1) * jobs // 6
        until(partial(lambda number: len(journal.lines("start")) >= number, enough), 120)
        victim = workers.pop(chance.randrange(len(workers)))
        victim.kill()
        killed[victim.process.pid] = time.time()
        workers.append(fleet.start(lease=2, concurrency=4).started())
    assert all_over(db, ids, 300).keys() <= {"completed", "dead"}
    assert most_at_once(journal, killed) <= LIMIT
    assert scalar(db, "select count(*) from wakeful.job") == 0
