"""Limits, over many sessions at once: never exceeded, and nothing is left behind."""

from __future__ import annotations

import random
import time
from typing import Any
from uuid import uuid4

import pytest

from tests.sessions import background, scalar, session, sessions, value, wait_until_blocked
from tests.verbs import claim, complete, enqueue_many, fail, register, settle, worker_claim
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


def test_a_job_that_is_parked_while_its_limit_goes_is_not_forgotten(database: Database) -> None:
    with sessions(database.dsn, 2) as (first, second), background() as start:
        value(first, "set_task_policy", task="t", concurrency=1, key="tenant")
        enqueue_many(first, [{"task": "t", "tenant": "a"} for _ in range(2)])
        [running] = claim(first, tasks=["t"])
        first.execute("begin")
        # It parks the other job, and has not committed that when the limit goes.
        assert claim(first, tasks=["t"]) == []
        gone = start(value, second, "set_task_policy", task="t")
        with session(database.dsn) as observer:
            wait_until_blocked(observer, second, gone)
        first.execute("commit")
        gone.result()
        complete(first, running)
        assert len(claim(first, tasks=["t"])) == 1


def test_who_goes_by_a_limit_that_has_gone_parks_nothing(database: Database) -> None:
    with sessions(database.dsn, 2) as (first, second):
        value(first, "set_task_policy", task="t", concurrency=1, key="tenant")
        enqueue_many(first, [{"task": "t", "tenant": "a"} for _ in range(3)])
        pairs = scalar(first, "select wakeful.steered_pairs('{default}', '{t}')::text")
        assert len(claim(first, tasks=["t"])) == 1
        value(second, "set_task_policy", task="t")
        keeps = "select wakeful.keep_keyed(%s::wakeful.steered_pair[], '{t}')"
        assert scalar(first, keeps, pairs) == []
        value(second, "set_task_policy", task="t", concurrency=1, key="tenant")
        assert scalar(first, keeps, pairs) == ["t"]
        # Somebody is about to change it.
        second.execute("begin")
        value(second, "set_task_policy", task="t", concurrency=2, key="tenant")
        assert scalar(first, keeps, pairs) == []
        second.execute("commit")


def test_a_worker_that_declares_breakers_and_one_that_settles_do_not_wait_for_each_other(database: Database) -> None:
    # As jsonb has it, the shorter name comes first.
    breakers = {name: {"threshold": 6} for name in ("b", "aa")}
    with sessions(database.dsn, 3) as (declaring, settling, holder), background() as start:
        for task, breaker in (("t1", "aa"), ("t2", "b")):
            value(declaring, "set_task_policy", task=task, breaker=breaker)
            enqueue_many(declaring, [{"task": task}])
        worker = uuid4()
        held = claim(declaring, worker, want=2, tasks=["t1", "t2"])
        holder.execute("begin")
        holder.execute("select from wakeful.breaker where name = 'aa' for update")
        ends = [(one.id, one.epoch, "failed", "1 second") for one in held]
        settled = start(settle, settling, worker, ends)
        with session(database.dsn) as observer:
            wait_until_blocked(observer, settling)
            declared = start(
                value, declaring, "declare_1", tasks=[], breakers=breakers, task_policies={}, queue_policies={}
            )
            wait_until_blocked(observer, declaring)
        holder.execute("commit")
        assert settled.result() == []
        declared.result()


def test_a_worker_that_says_the_same_again_waits_for_nobody(database: Database) -> None:
    with sessions(database.dsn, 2) as (first, second):
        said = {"tasks": ["t"], "breakers": {"smtp": {"open_for": "20 minutes"}}, "queue_policies": {}}
        said["task_policies"] = {"t": {"breaker": "smtp"}}
        value(first, "declare_1", **said)
        first.execute("begin")
        first.execute("select from wakeful.breaker for update")
        second.execute("set lock_timeout = '5s'")
        value(second, "declare_1", **said)
        first.execute("rollback")


def test_clocks_of_fair_queues_that_are_begun_in_any_order_make_nobody_wait(database: Database) -> None:
    with sessions(database.dsn, 2) as (first, second):
        for queue in ("a", "b"):
            value(first, "set_queue_policy", queue=queue, fair=True)
            enqueue_many(first, [{"task": "t", "queue": queue, "tenant": str(n)} for n in range(8)])
        for conn, queue in ((first, "a"), (second, "b")):
            conn.execute("begin")
            assert len(claim(conn, queues=[queue], tasks=["t"])) == 1
        second.execute("set local lock_timeout = '5s'")
        first.execute("set local lock_timeout = '5s'")
        assert len(claim(first, queues=["b"], tasks=["t"])) == 1
        assert len(claim(second, queues=["a"], tasks=["t"])) == 1
        first.execute("commit")
        second.execute("commit")


def test_who_finds_the_gate_of_a_freed_key_taken_looks_again_in_a_moment(database: Database) -> None:
    with sessions(database.dsn, 2) as (first, second):
        value(first, "set_task_policy", task="t", concurrency=1, key="tenant")
        enqueue_many(first, [{"task": "t", "tenant": "a"} for _ in range(2)])
        [running] = claim(first, tasks=["t"])
        assert claim(first, tasks=["t"]) == []
        complete(first, running)
        worker = register(second)
        first.execute("begin")
        assert scalar(first, "select wakeful.take_gates(array[wakeful.key_gate('t', 'a')])")
        jobs, report = worker_claim(second, worker)
        assert jobs == []
        assert report["due_in"] < 1
        first.execute("commit")
        assert len(worker_claim(second, worker)[0]) == 1
