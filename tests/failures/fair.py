"""A hundred thousand jobs of one tenant, then ten of another, in a fair queue."""

from __future__ import annotations

from dataclasses import dataclass

from tests.failures.trial import Finding, Site, broken
from tests.sessions import Session, query, scalar
from tests.verbs import enqueue_many
from tests.worker.processes import until

FEW = 10
MOST = 100
ROUNDS = 5
AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Overtaken:
    """How many of A's jobs were started until each late comer's last one started, and ended; how many were left."""

    until_started: list[int]
    until_done: list[int]
    waiting: int


def fair(site: Site) -> Finding:
    """Five late comers, one after the other: how many more the first tenant has had until each is done."""
    alone, together = late_comers(site, processes=1), late_comers(site, processes=4)
    return Finding(
        {
            "jobs of A": f"{site.sizes.crowd:,}",
            "jobs of B": FEW,
            "A's jobs started between B's enqueuing and the end of its last, one process": shown(alone.until_done),
            "the same over four processes": shown(together.until_done),
            "A's jobs started until the start of B's last, over four processes": shown(together.until_started),
            "of A still waiting then": f"{together.waiting:,}",
        },
        broken(
            b_is_done_before_a_has_had_a_hundred_more=max(alone.until_done) <= MOST,
            b_has_started_before_a_has_had_a_hundred_more_over_four_processes=max(together.until_started) <= MOST,
            a_was_still_waiting=min(alone.waiting, together.waiting) > 0,
        ),
    )


def late_comers(site: Site, processes: int) -> Overtaken:
    """So many worker processes, A's crowd, and one late comer after the other."""
    with site.at_work() as (db, fleet):
        db.execute("truncate wakeful.job, wakeful.finished_job, wakeful.fair_clock")
        for start in range(0, site.sizes.crowd, AT_ONCE):
            add(db, "a", min(AT_ONCE, site.sizes.crowd - start))
        workers = [fleet.start(app="tests.failures.apps", concurrency=4) for _ in range(processes)]
        for worker in workers:
            worker.started()
        seen = [late_comer(db, f"b{round}") for round in range(ROUNDS)]
        waiting = int(scalar(db, "select count(*) from wakeful.job where tenant = 'a'"))
    return Overtaken([started for started, _ in seen], [done for _, done in seen], waiting)


def late_comer(db: Session, tenant: str) -> tuple[int, int]:
    """How many of A's jobs were started between the enqueuing of this tenant's and its last one's start, and end."""
    before = done(db, "a")
    until(lambda: done(db, "a") >= before + 50, 120)
    add(db, tenant, FEW)
    since = scalar(db, "select wakeful.now()")
    until(lambda: done(db, tenant) == FEW, 120)
    [row] = query(
        db,
        "select count(*) filter (where a.started_at <= b.started_at) as started, count(*) as done from wakeful.jobs a,"
        " (select max(f.started_at) as started_at, max(f.finished_at) as finished_at"
        "  from wakeful.finished_job f where f.tenant = %s) b"
        " where a.tenant = 'a' and a.started_at > %s and a.started_at <= b.finished_at",
        tenant,
        since,
    )
    return row["started"], row["done"]


def shown(numbers: list[int]) -> str:
    """They, one after the other."""
    return ", ".join(map(str, numbers))


def add(db: Session, tenant: str, jobs: int) -> None:
    """So many jobs of a tenant."""
    enqueue_many(db, [{"task": "share", "queue": "shared", "tenant": tenant} for _ in range(jobs)])


def done(db: Session, tenant: str) -> int:
    """How many of a tenant's jobs are done."""
    return int(scalar(db, "select count(*) from wakeful.finished_job where tenant = %s", tenant))
