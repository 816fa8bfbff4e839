"""A job explained: why it is not running, or what happened to it, in sentences, and its story as a timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from wakeful.observe.verdict import on_the_clock
from wakeful.values.moment import told_moment
from wakeful.values.wording import in_words

Facts = Mapping[str, Any]
MOST_AHEAD = 1000


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the timeline."""

    at: datetime
    what: str


def answer(facts: Facts) -> list[str]:
    """The sentences: the state first, then everything that keeps the job from running."""
    job, now = facts["job"], told_moment(facts["at"])
    match job["state"]:
        case "scheduled":
            told = [_scheduled(job, now), *_gates(facts)]
        case "ready":
            told = [f"It has been ready for {_ago(job['ready_at'], now)}.", *_why_not_started(facts)]
        case "running":
            told = list(_running(facts, now))
        case "completed":
            told = [
                f"It completed {_ago(job['finished_at'], now)} ago, at start {job['attempt']} of {job['max_attempts']}."
            ]
        case "cancelled":
            told = [f"It was cancelled {_ago(job['finished_at'], now)} ago{_because(job['cancel_reason'])}."]
        case _:
            told = list(_dead(facts, now))
    if facts.get("rerun_waits"):
        told.append(
            "It was asked for again meanwhile (dedup rerun): the next job of its key starts when this one is over."
        )
    return told


def timeline(facts: Facts) -> list[Moment]:
    """What happened, oldest first."""
    job = facts["job"]
    moments = [Moment(told_moment(job["created_at"]), _made(job))]
    for one in job["attempts"] or ():
        # An imported one does not tell who began it, and when.
        if one.get("started_at"):
            began = f"attempt {one['attempt']} started by {_name(facts, one['worker_id'])}"
            moments.append(Moment(told_moment(one["started_at"]), began))
        moments.append(Moment(told_moment(one["ended_at"]), f"attempt {one['attempt']} {one['outcome']}{_error(one)}"))
    if job["state"] in ("running", "completed") and job["started_at"]:
        holder = _name(facts, job["worker_id"])
        moments.append(Moment(told_moment(job["started_at"]), f"attempt {job['attempt']} started by {holder}"))
    moments += [Moment(told_moment(act["at"]), f"{act['act']} by {act['actor']}") for act in facts["acts"]]
    if job["finished_at"] is not None:
        moments.append(Moment(told_moment(job["finished_at"]), str(job["state"])))
    # Sorting keeps the order of what happened at one moment.
    return sorted(moments, key=lambda one: one.at)


def _name(facts: Facts, worker_id: str) -> str:
    """The worker's, while it is on the list; its id after that."""
    return str((facts.get("names") or {}).get(worker_id, worker_id))


def _scheduled(job: Facts, now: datetime) -> str:
    wait = (told_moment(job["run_at"]) - now).total_seconds()
    due = f"due in {in_words(wait)}" if wait > 0 else f"overdue by {in_words(-wait)}, and about to be made ready"
    last = (job["attempts"] or [{}])[-1]
    match last.get("outcome"):
        case None:
            why = "It was enqueued for later"
        case "snoozed":
            why = f"Its handler snoozed it{_because(last.get('message'))}"
        case outcome:
            why = f"Attempt {last['attempt']} of {job['max_attempts']} {outcome}{_error(last)}; it is tried again"
    return f"{why}: it is {due} ({on_the_clock(job['run_at'])})."


def _why_not_started(facts: Facts) -> Iterator[str]:
    gates = list(_gates(facts))
    yield from gates
    if gates:
        return
    if facts["suspect"]:
        yield "It was there when workers died, so it must run alone: a worker takes it when nothing else runs there."
    serving = [one for one in facts["workers"] if one["serves_task"] and one["serves_queue"]]
    free = [one for one in serving if one["running"] < one["slots"]]
    if serving and not free:
        busy = "the worker that serves it" if len(serving) == 1 else f"the {len(serving)} workers that serve it"
        yield f"All slots of {busy} are taken: see `wakeful jobs list --state running`."
    if ahead := facts["ahead"]:
        count = f"{ahead} or more" if ahead >= MOST_AHEAD else str(ahead)
        yield f"Before it in line: {count} ready jobs of its queue."
    elif free:
        yield "It is first in line, and a worker has a free slot: it should start at any moment."


def _gates(facts: Facts) -> Iterator[str]:
    """What shuts out a whole task or queue."""
    job, workers = facts["job"], facts["workers"]
    for one in facts["paused"]:
        option = "--task " if one["kind"] == "task" else ""
        yield (
            f"{one['kind'].capitalize()} {one['name']} is paused by {one['by']} since {on_the_clock(one['since'])}"
            f"{_because(one['reason'])}: go on with `wakeful queues resume {option}{one['name']}`."
        )
    for one in facts.get("breakers", ()):
        until = f" until {on_the_clock(one['until'])}" if one.get("until") else ""
        advice = f"if the service is back, `wakeful breakers reset {one['name']}`."
        yield f"Breaker {one['name']} is {one['state'].replace('_', ' ')}{until}: {advice}"
    for one in facts.get("limits", ()):
        if one.get("seconds") is not None:
            yield f"The rate of {one['name']} lets the next one start in {in_words(one['seconds'])}."
        else:
            yield f"Its limit {one['name']} is full{_held(one)}: it starts when one of those ends."
    if facts["loops_wait"] or any(one["serves_task"] and one["serves_queue"] for one in workers):
        return
    if not workers:
        yield "No worker is alive: start one with `wakeful worker module:app`."
    elif not any(one["serves_task"] for one in workers):
        alike = _alike(job["task"], facts.get("served", ()))
        check = f"check the name, {alike} is served" if alike else "check the name"
        yield f"No worker alive has the task {job['task']}: deploy one whose app imports it, or {check}."
    else:
        queue = job["queue"]
        yield f"No worker alive that has the task serves queue {queue}: start one with `--queues {queue}`."


def _alike(task: str, served: Sequence[str]) -> str | None:
    """A task that may have been meant: of the same name in some module, else one that is spelt nearly so."""
    last = task.rpartition(".")[2]
    named = [one for one in served if one.rpartition(".")[2] == last]
    return next(iter(named or get_close_matches(task, served, 1)), None)


def _held(limit: Facts) -> str:
    holders = limit.get("held_by") or ()
    return (
        f" ({limit['used']} of {limit['most']}" + (f", held by {', '.join(map(str, holders))}" if holders else "") + ")"
    )


def _running(facts: Facts, now: datetime) -> Iterator[str]:
    job, holder = facts["job"], facts["holder"]
    who = holder["name"] if holder else f"{job['worker_id']} (a loop of someone's own)"
    start = f"start {job['attempt']} of {job['max_attempts']}"
    yield f"It has been running for {_ago(job['started_at'], now)}, {start}, at {who}."
    if job["progress"]:
        told = job["progress"].get("message")
        yield f"It says that it is {job['progress'].get('percent')} % done{f': {told}' if told else ''}."
    if job["cancel_requested_at"]:
        yield f"It was asked to stop {_ago(job['cancel_requested_at'], now)} ago{_because(job['cancel_reason'])}."
    if job["lease_expires_at"] and told_moment(job["lease_expires_at"]) <= now:
        yield "Its lease has lapsed: the next worker that looks takes it back."
    elif holder and not holder["alive"]:
        yield "Its worker has stopped beating: the next worker that looks takes the job back."


def _dead(facts: Facts, now: datetime) -> Iterator[str]:
    job, letter = facts["job"], facts.get("letter") or {}
    error = f"{job['last_error_code']}: {job['last_error_message']}"
    starts = f"{job['attempt']} of {job['max_attempts']} starts"
    yield f"It died {_ago(job['finished_at'], now)} ago, after {starts}: {error}"
    if letter.get("requeued_as"):
        yield f"It was put back as job {letter['requeued_as']}."
    else:
        yield f"Put it back with `wakeful dead requeue {job['id']}`, or try it here with `wakeful replay {job['id']}`."


def _made(job: Facts) -> str:
    by = f" by {job['created_by']}" if job["created_by"] else ""
    of = f", child of {job['parent_id']}" if job["parent_id"] else ""
    again = f", in place of {job['origin_id']}" if job["origin_id"] else ""
    return f"enqueued{by}{of}{again}"


def _error(attempt: Facts) -> str:
    told = ": ".join(str(attempt[name]) for name in ("code", "message") if attempt.get(name))
    return f" ({told})" if told else ""


def _because(reason: object) -> str:
    return f" ({reason})" if reason else ""


def _ago(at: str, now: datetime) -> str:
    return in_words(max(0.0, (now - told_moment(at)).total_seconds()))
