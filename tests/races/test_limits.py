"""Limits, over many sessions at once: never exceeded, and nothing is left behind."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from tests.sessions import background, scalar, session, sessions, value
from tests.verbs import claim, complete, enqueue_many, fail
from wakeful.testing import Database

KEYS, LIMIT, JOBS = 5, 3, 400


@pytest.mark.parametrize(
    ("function", "policy"),
    [
        ("set_task_policy", {"task": "t", "concurrency": LIMIT}),
        ("set_task_policy", {"task": "t", "concurrency": LIMIT, "key": "tenant"}),
        ("set_task_policy", {"task": "t", "rate": 3, "per": "1 hour", "burst": LIMIT}),
        ("set_task_policy", {"task": "t", "rate": 3, "per": "1 hour", "burst": LIMIT, "key": "tenant"}),
        ("set_queue_policy", {"queue": "q", "concurrency": LIMIT}),
        ("set_queue_policy", {"queue": "q", "rate": 3, "per": "1 hour", "burst": LIMIT}),
    ],
)
def test_who_cannot_see_what_another_has_just_started_starts_nothing(
    database: Database, function: str, policy: dict[str, Any]
) -> None:
    # Other jobs behind the same limit, so that no lock on a job's own row stands in for that on the limit.
    there = {"queue": "q", "task": "t"}
    elsewhere = {"queue": "r", "task": "t"} if function == "set_task_policy" else {"queue": "q", "task": "u"}
    with sessions(database.dsn, 2) as (first, second):
        value(first, function, **policy)
        enqueue_many(first, [{**place, "tenant": "a"} for place in (there, elsewhere) for _ in range(9)])
        first.execute("begin")
        assert len(claim(first, want=9, queues=["q"], tasks=["t"])) == LIMIT
        # It is not committed, so that the second session counts nothing that runs.
        assert claim(second, want=9, queues=[elsewhere["queue"]], tasks=[elsewhere["task"]]) == []
        first.execute("commit")
        assert claim(second, want=9, queues=[elsewhere["queue"]], tasks=[elsewhere["task"]]) == []


def test_many_sessions_never_run_more_than_the_limit_and_finish_all(database: Database) -> None:
    with session(database.dsn) as db:
        value(db, "set_task_policy", task="t", concurrency=LIMIT, key="tenant")
        enqueue_many(db, [{"task": "t", "tenant": f"k{n % KEYS}"} for n in range(JOBS)])
        over: list[int] = []

        def work(seed: int) -> int:
            draw, done, idle = random.Random(seed), 0, 0
            with session(database.dsn) as mine:
                while idle < 40:
                    held = claim(mine, want=draw.randint(1, 8), queues=["default"], tasks=["t"], lease="1 minute")
                    idle = 0 if held else idle + 1
                    if not held:
                        time.sleep(0.01)
                    most = scalar(
                        mine,
                        "select coalesce(max(n), 0) from (select count(*) n from wakeful.job where state = 2"
                        " group by tenant) c",
                    )
                    over.append(int(most))
                    for one in held:
                        if draw.random() < 0.2:
                            fail(mine, one, retry_in="0 seconds")
                        else:
                            complete(mine, one)
                            done += 1
            return done

        with background() as start:
            finished = sum(one.result() for one in [start(work, seed) for seed in range(6)])
        dead = int(scalar(db, "select count(*) from wakeful.dead_letters"))
        assert max(over) <= LIMIT
        assert finished + dead == JOBS
        assert scalar(db, "select count(*) from wakeful.job") == 0


def test_a_rate_is_kept_by_many_sessions(database: Database) -> None:
    rate, burst = 100, 5
    with session(database.dsn) as db:
        value(db, "set_task_policy", task="t", rate=rate, burst=burst)
        enqueue_many(db, [{"task": "t"} for _ in range(400)])

        def work() -> None:
            until = time.monotonic() + 2
            with session(database.dsn) as mine:
                while time.monotonic() < until:
                    if not claim(mine, want=10, queues=["default"], tasks=["t"]):
                        time.sleep(0.005)

        with background() as start:
            for one in [start(work) for _ in range(4)]:
                one.result()
        most = scalar(
            db,
            "select max(n) from (select count(*) over (order by started_at range between current row and interval"
            " '999 milliseconds' following) n from wakeful.job where state = 2) w",
        )
        assert rate * 0.5 < most <= rate + burst
