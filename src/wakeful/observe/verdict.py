"""Whether the queue is well, judged from the facts that the database tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from wakeful.values.alert import Alert
from wakeful.values.finding import Finding
from wakeful.values.moment import told_moment
from wakeful.values.wording import in_words

Facts = Mapping[str, Any]
MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """What is too old: a ready job that nobody starts, a job that runs."""

    ready_age: timedelta = timedelta(minutes=5)
    stuck_after: timedelta = timedelta(hours=1)


def judge(facts: Facts, limits: HealthLimits) -> list[Finding]:
    """All that was looked at, in the order in which an operator asks."""
    return [
        Finding("database", "ok", "The database answers."),
        Finding("schema", "ok", f"The schema is at version {facts['schema_version']}."),
        _workers(facts),
        _listeners(facts),
        _oldest(facts, limits.ready_age),
        _orphans(facts),
        _stuck(facts, limits.stuck_after),
        _dead(facts),
        *_breakers(facts),
        *_paused(facts),
        *_alerts(facts),
    ]


def _workers(facts: Facts) -> Finding:
    alive = facts["workers_alive"]
    if alive == 0 and facts["jobs_wait"]:
        remedy = "Start one: `wakeful worker module:app`."
        return Finding("workers", "failing", "Jobs wait, and no worker is alive.", remedy)
    told = f"{_count(alive, 'worker')} alive"
    if facts["workers_lapsed"]:
        remedy = "See `wakeful workers list`, and why those processes died."
        return Finding("workers", "warning", f"{told}; {facts['workers_lapsed']} stopped beating.", remedy)
    return Finding("workers", "ok", f"{told}.")


def _listeners(facts: Facts) -> Finding:
    if deaf := facts["workers_degraded"]:
        remedy = "Set WAKEFUL_LISTEN_DSN to a direct connection, past the pooler."
        return Finding("listeners", "warning", f"Notifications do not reach {', '.join(deaf)}: they poll.", remedy)
    return Finding("listeners", "ok", "No worker tells of a deaf listener.")


def _oldest(facts: Facts, most: timedelta) -> Finding:
    oldest = facts["oldest_ready"]
    if oldest is None:
        return Finding("oldest_ready", "ok", "No ready job waits to be started.")
    told = (
        f"The oldest ready job has waited for {in_words(oldest['seconds'])} ({oldest['task']}, queue {oldest['queue']})"
    )
    if oldest["seconds"] <= most.total_seconds():
        return Finding("oldest_ready", "ok", f"{told}.")
    return Finding("oldest_ready", "failing", f"{told}.", f"Ask why: `wakeful explain {oldest['id']}`.")


def _orphans(facts: Facts) -> Finding:
    if not (orphans := facts["orphans"]):
        return Finding("orphans", "ok", "Every task that has ready jobs is served by a worker.")
    named = ", ".join(f"{one['task']} (queue {one['queue']})" for one in orphans[:5])
    more = f" and {len(orphans) - 5} more" if len(orphans) > 5 else ""
    remedy = "Start a worker that has the task and serves the queue, or cancel the jobs."
    return Finding("orphans", "failing", f"No worker alive serves {named}{more}.", remedy)


def _stuck(facts: Facts, after: timedelta) -> Finding:
    if not (stuck := facts["stuck"]):
        return Finding("stuck", "ok", f"No job runs for longer than {in_words(after.total_seconds())}.")
    named = ", ".join(f"{one['id']} ({one['task']})" for one in stuck[:3])
    told = f"{_count(len(stuck), 'job')} ran for longer than {in_words(after.total_seconds())}: {named}."
    return Finding(
        "stuck", "failing", told, f"Look: `wakeful explain {stuck[0]['id']}`; stop it: `wakeful jobs cancel`."
    )


def _dead(facts: Facts) -> Finding:
    count = facts["dead_unacknowledged"]
    if not count:
        return Finding("dead_letters", "ok", "No dead letter is unseen.")
    told = f"More than {MOST_COUNTED} dead letters" if count > MOST_COUNTED else _count(count, "dead letter")
    verb = "is" if count == 1 else "are"
    return Finding("dead_letters", "warning", f"{told} {verb} unseen.", "See to them: `wakeful dead list`.")


def _breakers(facts: Facts) -> Iterator[Finding]:
    for one in facts.get("breakers_open", ()):
        told = f"Breaker {one['name']} is {one['state'].replace('_', ' ')} since {on_the_clock(one['since'])}."
        yield Finding("breakers", "warning", told, f"When the service is back: `wakeful breakers reset {one['name']}`.")


def _paused(facts: Facts) -> Iterator[Finding]:
    for one in facts["paused"]:
        because = f" ({one['reason']})" if one["reason"] else ""
        option = "--task " if one["kind"] == "task" else ""
        told = f"{one['kind'].capitalize()} {one['name']} is paused by {one['by']}{_since(one)}{because}."
        yield Finding("paused", "warning", told, f"Go on with `wakeful queues resume {option}{one['name']}`.")


def _since(one: Facts) -> str:
    return f" since {on_the_clock(one['since'])}" if one.get("since") else ""


def _alerts(facts: Facts) -> Iterator[Finding]:
    for one in facts.get("alerts", ()):
        alert = Alert(one["rule"], one["subject"], one["number"], one["threshold"], fired=True)
        told = f"Since {on_the_clock(one['since'])}: {alert.sentence}"
        yield Finding("alerts", "warning", told, "It clears by itself when the cause is gone.")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def on_the_clock(text: str) -> str:
    """A moment, as the database writes it in JSON, on this machine's clock."""
    return f"{told_moment(text).astimezone():%Y-%m-%d %H:%M:%S}"
