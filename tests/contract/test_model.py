"""Random sequences of the core's functions against a small model: after every step the states are equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid5

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from tests.contract.model import SECOND, Ask, Model, ModelJob
from tests.effort import EFFORT, times
from tests.sessions import (
    DUPLICATE,
    MISSING,
    REFUSED,
    STALE,
    Session,
    empty,
    query,
    session,
    sqlstate_of,
    take_out,
    value,
)
from tests.verbs import Held, claim, complete, enqueue_many, fail, stats
from wakeful.testing import Databases

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = UUID("7e57ab1e-0000-4000-8000-000000000000")
WORKERS = [uuid5(NAMES, f"worker {n}") for n in range(2)]

STRANGER = uuid5(NAMES, "stranger")

Act = Callable[[Session, Held], object]
FENCED: dict[str, Act] = {
    "complete": complete,
    "fail": lambda db, held: fail(db, held, no_retry=True),
    "snooze": lambda db, held: value(db, "snooze", **held.fence, delay="1 second"),
    "release": lambda db, held: value(db, "release", **held.fence),
    "extend": lambda db, held: value(db, "extend", **held.fence, lease="1 hour"),
}

verbs = st.sampled_from(sorted(FENCED))
waits = st.sampled_from([0, 2 * SECOND, 20 * SECOND])
modes = st.sampled_from(["skip", "raise", "replace", "debounce", "rerun"])
keys = st.sampled_from(["a", "b"])


class Claim(NamedTuple):
    """A claim as its holder remembers it, however long ago."""

    id: UUID
    epoch: int
    worker: UUID


def interval(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)


class Core(RuleBasedStateMachine):
    """The functions on one side, the model on the other."""

    ids = Bundle("ids")
    claims = Bundle("claims")

    def __init__(self, db: Session) -> None:
        super().__init__()
        self.db = db
        self.model = Model()
        self.numbers = 0
        empty(db)

    def tick(self) -> None:
        """A millisecond passes, in both worlds: no two steps happen at the same time."""
        self.model.now += 1000
        at = EPOCH + interval(self.model.now)
        self.db.execute("select set_config('test.now', %s, false)", [at.isoformat()])

    def next_ask(self, **options: Any) -> Ask:
        self.tick()
        self.numbers += 1
        return Ask(uuid5(NAMES, f"job {self.numbers}"), self.numbers, **options)

    @rule(target=ids, priority=st.sampled_from([None, 0, 5]), delay=waits, starts=st.integers(1, 3))
    def enqueue(self, priority: int | None, delay: int, starts: int) -> UUID:
        ask = self.next_ask(priority=priority, delay=delay, max_attempts=starts)
        return self.compare_enqueue(ask, "skip")

    @rule(target=ids, key=keys, mode=modes, priority=st.sampled_from([None, 5]), delay=waits)
    def enqueue_with_key(self, key: str, mode: str, priority: int | None, delay: int) -> UUID:
        return self.compare_enqueue(self.next_ask(key=key, priority=priority, delay=delay), mode)

    @rule(id=ids, key=st.none() | keys)
    def resend(self, id: UUID, key: str | None) -> None:
        if id in self.model.jobs:
            ask = self.next_ask(key=key)
            ask.id = id
            self.compare_enqueue(ask, "skip")

    def compare_enqueue(self, ask: Ask, mode: str) -> UUID:
        job = {"task": "t", "id": str(ask.id), "payload": {"n": ask.number}, "max_attempts": ask.max_attempts}
        job |= {"priority": ask.priority, "delay": f"{ask.delay} microseconds"}
        job |= {} if ask.key is None else {"dedup_key": ask.key, "dedup": mode}
        expected, action = self.model.enqueue(ask, mode)
        if action == "raised":
            assert sqlstate_of(lambda: enqueue_many(self.db, [job])) == DUPLICATE
        else:
            [told] = enqueue_many(self.db, [job])
            assert (told["id"], told["action"]) == (expected, action)
        return expected

    @rule(target=claims, worker=st.sampled_from(WORKERS), want=st.integers(1, 3), lease=st.sampled_from([5, 60]))
    def claim_some(self, worker: UUID, want: int, lease: int) -> Any:
        return self.claim(worker, want, lease)

    def claim(self, worker: UUID, want: int, lease: int) -> Any:
        self.tick()
        expected = self.model.claim(worker, want, lease * SECOND)
        taken = claim(self.db, worker, want=want, lease=f"{lease} seconds")
        assert [(held.id, held.epoch) for held in taken] == [(job.id, job.epoch) for job in expected]
        return multiple(*(Claim(held.id, held.epoch, worker) for held in taken))

    @rule(target=claims, old=claims, verb=verbs)
    def stall_and_claim_again(self, old: Claim, verb: str) -> Any:
        """A worker sleeps through its leases, wakes, and is given the same jobs; then its old self acts."""
        self.let_time_pass(70)
        claims = self.claim(old.worker, 9, 60)
        assert self.compare_fence(old, FENCED[verb]) is None
        return claims

    @rule(held=claims, verb=verbs)
    def act_as_a_stranger(self, held: Claim, verb: str) -> None:
        assert self.compare_fence(held._replace(worker=STRANGER), FENCED[verb]) is None

    @rule(held=claims)
    def complete(self, held: Claim) -> None:
        job = self.compare_fence(held, complete)
        if job is not None:
            self.model.finish(job, "completed")

    @rule(held=claims, retry_in=st.none() | waits)
    def fail(self, held: Claim, retry_in: int | None) -> None:
        options: dict[str, object] = {"no_retry": True} if retry_in is None else {"retry_in": interval(retry_in)}
        job = self.compare_fence(held, lambda db, one: fail(db, one, **options))
        if job is not None:
            self.model.end_attempt(job, "failed", retry_in, charged=True)

    @rule(held=claims, delay=waits)
    def snooze(self, held: Claim, delay: int) -> None:
        job = self.compare_fence(held, lambda db, one: value(db, "snooze", **one.fence, delay=interval(delay)))
        if job is not None:
            self.model.end_attempt(job, "snoozed", delay, charged=False)

    @rule(held=claims)
    def release(self, held: Claim) -> None:
        job = self.compare_fence(held, FENCED["release"])
        if job is not None:
            self.model.end_attempt(job, "released", 0, charged=False)

    @rule(held=claims, lease=st.sampled_from([5, 60]))
    def extend(self, held: Claim, lease: int) -> None:
        job = self.compare_fence(held, lambda db, one: value(db, "extend", **one.fence, lease=f"{lease} seconds"))
        if job is not None:
            job.lease_until = self.model.now + lease * SECOND

    def compare_fence(self, claimed: Claim, act: Act) -> ModelJob | None:
        """The job if the claim holds it, and the act was taken; else the act was refused as stale."""
        self.tick()
        job = self.model.holds(*claimed)
        held = Held(claimed.id, claimed.epoch, claimed.worker, {})
        assert sqlstate_of(lambda: act(self.db, held)) == (None if job else STALE)
        return job

    @rule(id=ids)
    def cancel(self, id: UUID) -> None:
        self.tick()
        assert value(self.db, "cancel", id=id) == self.model.cancel(id)

    @rule(seconds=st.sampled_from([1, 6, 70]))
    def wait(self, seconds: int) -> None:
        self.let_time_pass(seconds)

    def let_time_pass(self, seconds: int) -> None:
        self.model.now += seconds * SECOND

    @rule()
    def rescue(self) -> None:
        self.tick()
        assert value(self.db, "rescue") == self.model.rescue()

    @rule()
    def promote(self) -> None:
        self.tick()
        assert value(self.db, "promote", queues=["default"], tasks=["t"]) == self.model.promote()

    @rule(target=ids, id=ids)
    def requeue(self, id: UUID) -> Any:
        self.tick()
        old = self.model.jobs.get(id)
        if old is None or old.live:
            assert sqlstate_of(lambda: value(self.db, "requeue", id=id)) == MISSING
            return multiple()
        made: UUID = value(self.db, "requeue", id=id)
        assert made == self.model.requeue(old, made)
        return made

    @rule(id=ids)
    def hurry(self, id: UUID) -> None:
        self.tick()
        job = self.model.jobs.get(id)
        if job is None or not job.live:
            assert sqlstate_of(lambda: value(self.db, "retry_now", id=id)) == MISSING
            return
        assert value(self.db, "retry_now", id=id) is (job.state == "scheduled")
        if job.state == "scheduled":
            self.model.wait(job, self.model.now)

    @rule(id=consumes(ids))
    def bury(self, id: UUID) -> None:
        self.tick()
        job = self.model.jobs.get(id)
        refused = None if job and job.live and job.state != "running" else REFUSED if job and job.live else MISSING
        assert sqlstate_of(lambda: value(self.db, "bury", id=id, reason="why")) == refused
        if job is not None and refused is None:
            self.model.finish(job, "dead")

    @invariant()
    def states_are_equal(self) -> None:
        rows = query(
            self.db,
            "select id, state, (payload ->> 'n')::int as number, attempt, max_attempts, epoch, -priority as rank,"
            " dedup_key, run_at, ready_at, lease_expires_at, worker_id, cancel_requested_at, requeued_as, attempts"
            " from wakeful.jobs",
        )
        assert len(rows) == len(self.model.jobs)
        for row in rows:
            assert shown(row) == expected(self.model.jobs[row["id"]])
        counts: dict[str, int] = {}
        for job in self.model.jobs.values():
            counts[job.state] = counts.get(job.state, 0) + 1
        assert stats(self.db) == counts


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the view in the model's terms."""

    def clock(name: str) -> int | None:
        return None if row[name] is None else round((row[name] - EPOCH) / timedelta(microseconds=1))

    always = {name: row[name] for name in ("id", "state", "number", "attempt", "max_attempts", "epoch", "rank")}
    always |= {"key": row["dedup_key"], "requeued_as": row["requeued_as"]}
    always |= {"history": [(entry["epoch"], entry["outcome"]) for entry in row["attempts"] or ()]}
    if row["state"] not in ("scheduled", "ready", "running"):
        return always
    times_ = {"run_at": clock("run_at"), "ready_at": clock("ready_at"), "lease_until": clock("lease_expires_at")}
    asked = {"cancel_requested": row["cancel_requested_at"] is not None}
    return always | times_ | asked | {"worker_id": row["worker_id"]}


def expected(job: ModelJob) -> dict[str, Any]:
    """A job of the model in the same terms."""
    names = ["id", "state", "number", "attempt", "max_attempts", "epoch", "rank", "key", "requeued_as", "history"]
    if job.live:
        names += ["run_at", "ready_at", "lease_until", "cancel_requested", "worker_id"]
    return {name: getattr(job, name) for name in names}


STEPS = 50
common = settings(
    stateful_step_count=STEPS,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def ruled(databases: Databases) -> Iterator[Session]:
    """A session on a database whose clock stands still until it is told."""
    with databases.migrated() as database, session(database.dsn) as conn:
        stop_clock(conn)
        yield conn


def stop_clock(db: Session) -> None:
    db.execute("select set_config('test.now', '2030-01-01T00:00:00Z', false)")
    db.execute(
        "create or replace function wakeful.now() returns timestamptz language sql volatile"
        " return current_setting('test.now')::timestamptz"
    )


@pytest.mark.timeout(7200)
def test_the_core_does_what_the_model_does(ruled: Session) -> None:
    play(ruled, settings(common, max_examples=times(100)))


def play(db: Session, how: settings) -> None:
    """Run the machine on a session."""

    class OnThisSession(Core):
        def __init__(self) -> None:
            super().__init__(db)

    run_state_machine_as_test(OnThisSession, settings=how)


# What is taken out, and of which functions: the guards that make a claim a claim.
GUARDS = {
    "the epoch, when completing": {"complete_1": r" and j\.epoch = (s\.epoch|epochs\[\S+ j\.id\)\])"},
    "the epoch, otherwise": {"pass_fence": r" and j\.epoch = s\.epoch"},
    "the worker, when completing": {"complete_1": r"\s+and j\.worker_id = complete_1\.worker_id"},
    "the worker, otherwise": {"pass_fence": r" and j\.worker_id = pass_fence\.worker_id"},
    "the epoch, when extending": {"extend_1": r" and j\.epoch = s\.epoch"},
    "the raising of the epoch": {"claim_1": r"epoch = j\.epoch \+ 1, "},
    "the look for a lapsed lease": {"rescue": r" and j\.lease_expires_at <= at"},
    "the limit of starts": {"end_attempts": r" and \(not e\.charged or j\.attempt < j\.max_attempts\)"},
}
# Some take a while to find: those are left to runs that try harder.
SEARCHED = list(GUARDS)[: None if EFFORT > 1 else 3]


@pytest.mark.parametrize("guard", SEARCHED)
def test_the_same_machine_finds_that_a_guard_is_missing(databases: Databases, guard: str) -> None:
    searching = settings(common, max_examples=400, phases=[Phase.generate], derandomize=True)
    with databases.migrated() as database, session(database.dsn) as conn:
        stop_clock(conn)
        for function, text in GUARDS[guard].items():
            take_out(conn, function, text)
        with pytest.raises((AssertionError, psycopg.Error)):
            play(conn, searching)
