"""What was set out to be reached, and whether it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from benchmarks.figures import short
from benchmarks.results import Results

Value = Callable[[Results], float | None]


@dataclass(frozen=True, slots=True)
class Goal:
    """`bound` is the least or the most that `value` may be."""

    sentence: str
    value: Value
    sign: Literal["≥", "≤"]
    bound: float

    def verdict(self, results: Results) -> Verdict:
        """Against what was measured; not measured when a part of it was not."""
        value = self.value(results)
        if value is None:
            return Verdict(self, None, "not measured")
        met = value >= self.bound if self.sign == "≥" else value <= self.bound
        return Verdict(self, value, "met" if met else "not met")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal, what came out, and the word for it."""

    goal: Goal
    value: float | None
    word: Literal["met", "not met", "not measured"]

    def cells(self) -> tuple[str, str, str, str]:
        """As a row of a table."""
        value = "–" if self.value is None else short(self.value)
        return self.goal.sentence, value, f"{self.goal.sign} {short(self.goal.bound)}", self.word


def _value(measurement: str, key: str, system: str = "wakeful") -> Value:
    def value(results: Results) -> float | None:
        middle = results.middle(measurement, system, key)
        return middle.median if middle else None

    return value


def _ratio(measurement: str, key: str, to: str, system: str = "wakeful") -> Value:
    def value(results: Results) -> float | None:
        ratio = results.ratio(measurement, key, system, to)
        return ratio.median if ratio else None

    return value


def _to_best_peer(measurement: str, key: str, best: Callable[[list[float]], float]) -> Value:
    """Ours to the best of the PostgreSQL peers; `best` is max of ratios for times, min for rates."""

    def value(results: Results) -> float | None:
        peers = [
            name
            for name in results.systems_in(measurement)
            if results.systems[name]["kind"] == "peer" and results.systems[name]["store"] == "postgres"
        ]
        ratios = [results.ratio(measurement, key, "wakeful", peer) for peer in peers]
        found = [ratio.median for ratio in ratios if ratio]
        return best(found) if found else None

    return value


def _least(*values: Value) -> Value:
    def value(results: Results) -> float | None:
        found = [each(results) for each in values]
        known = [each for each in found if each is not None]
        return min(known) if len(known) == len(found) else None

    return value


def _quotient(dividend: Value, divisor: Value) -> Value:
    def value(results: Results) -> float | None:
        above, below = dividend(results), divisor(results)
        return above / below if above is not None and below else None

    return value


RATE = "jobs_per_second"

GOALS = (
    Goal("Bulk enqueue, to a plain set-wise insert", _ratio("bulk", RATE, "bare-psycopg"), "≥", 0.5),
    Goal(
        "One-by-one enqueue with 20 callers, to a bare insert per connection without NOTIFY",
        _least(_ratio("enqueue", RATE, "bare-psycopg"), _ratio("enqueue", RATE, "bare-asyncpg")),
        "≥",
        2,
    ),
    Goal("One-by-one enqueue, to the best PostgreSQL peer", _to_best_peer("enqueue", RATE, min), "≥", 5),
    Goal(
        "Inside psycopg transactions, to a bare insert there",
        _ratio("inside", RATE, "row-in-psycopg", "job-in-psycopg"),
        "≥",
        0.6,
    ),
    Goal(
        "Inside SQLAlchemy transactions, to a bare insert there",
        _ratio("inside", RATE, "row-in-sqlalchemy", "job-in-sqlalchemy"),
        "≥",
        0.6,
    ),
    Goal("Drain, to PgQueuer", _ratio("drain", RATE, "pgqueuer"), "≥", 2),
    Goal("Drain, to Graphile Worker with its local queue", _ratio("drain", RATE, "graphile"), "≥", 1.2),
    Goal(
        "Drain with two processes, to one",
        _quotient(_value("drain-2", RATE), _value("drain", RATE)),
        "≥",
        1,
    ),
    Goal("Drain with logs, metrics and tracing, to one without", _value("observed", "told_to_bare"), "≥", 0.85),
    Goal("Pinned snapshot, round four to round one", _value("pinned", "last_to_first"), "≥", 0.9),
    Goal(
        "Pinned snapshot, claims of ten, round four to round one",
        _value("pinned-10", "last_to_first", "functions"),
        "≥",
        0.9,
    ),
    Goal("Enqueue to start p50, to the best PostgreSQL peer", _to_best_peer("latency", "p50_ms", max), "≤", 0.6),
    Goal("Enqueue to start p99, to the best PostgreSQL peer", _to_best_peer("latency", "p99_ms", max), "≤", 1),
    Goal("Enqueue to start p99, ms", _value("latency", "p99_ms"), "≤", 10),
    Goal("Scheduled job, start after its moment p50, ms", _value("timers", "p50_ms"), "≤", 5),
    Goal("Scheduled job, start after its moment p99, ms", _value("timers", "p99_ms"), "≤", 25),
    Goal("Scheduled jobs started early", _value("timers", "early"), "≤", 0),
    Goal("Idle, statements per second", _value("idle", "queries_per_second"), "≤", 0.07),
    Goal("A hundred jobs at once, all started, s", _value("burst", "seconds"), "≤", 1),
    Goal("Drain with notifications, to drain with 50 ms polling", _value("polling", "notified_to_polled"), "≥", 1),
    Goal("Twenty idle processes, one job: claims", _value("herd", "claims"), "≤", 3),
    Goal("Claim of 100 in a crowd, to one alone", _value("claim", "crowd_to_none", "functions"), "≥", 0.85),
    Goal("Claim of 100 beside others' limits, to none", _value("steering", "unused", "functions"), "≥", 0.97),
    Goal(
        "Claim of 100 in a fair queue, 1,000 tenants",
        _value("steering", "fair", "functions"),
        "≥",
        0.6,
    ),
    Goal("Drain in a crowd, to one alone", _value("history", "worst_to_none"), "≥", 0.9),
    Goal("The slowest reading command in a crowd, s", _value("reading", "slowest"), "≤", 1),
    Goal("Resident memory of a worker with 100 slots, MB", _value("memory", "resident_mb"), "≤", 90),
)
