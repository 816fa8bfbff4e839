"""A hundred thousand jobs of one tenant, then ten of another, in a fair queue."""

from __future__ import annotations

from tests.failures.trial import Finding, Site, broken
from tests.sessions import Session, scalar
from tests.verbs import enqueue_many
from tests.worker.processes import until

FEW = 10
MOST = 100
ROUNDS = 5
AT_ONCE = 10_000


def fair(site: Site) -> Finding:
    """Five late comers, one after the other: how many more the first tenant has had until each is done."""
    with site.at_work() as (db, fleet):
        for start in range(0, site.sizes.crowd, AT_ONCE):
            add(db, "a", min(AT_ONCE, site.sizes.crowd - start))
        fleet.start(app="tests.failures.apps", concurrency=4)
        overtaken = [late_comer(db, f"b{round}") for round in range(ROUNDS)]
        waiting = int(scalar(db, "select count(*) from wakeful.job where tenant = 'a'"))
    return Finding(
        {
            "jobs of A": f"{site.sizes.crowd:,}",
            "jobs of B": FEW,
            "A's jobs started between B's enqueuing and the end of its last": ", ".join(map(str, overtaken)),
            "of A still waiting then": f"{waiting:,}",
        },
        broken(b_is_done_before_a_has_had_a_hundred_more=max(overtaken) <= MOST, a_was_still_waiting=waiting > 0),
    )


def late_comer(db: Session, tenant: str) -> int:
    """How many of A's jobs were started from the moment that this tenant's were enqueued to the end of its last one."""
    before = done(db, "a")
    until(lambda: done(db, "a") >= before + 50, 120)
    add(db, tenant, FEW)
    since = scalar(db, "select wakeful.now()")
    until(lambda: done(db, tenant) == FEW, 120)
    return int(
        scalar(
            db,
            "select count(*) from wakeful.jobs f where f.tenant = 'a' and f.started_at > %s"
            " and f.started_at <= (select max(b.finished_at) from wakeful.finished_job b where b.tenant = %s)",
            since,
            tenant,
        )
    )


def add(db: Session, tenant: str, jobs: int) -> None:
    """So many jobs of a tenant."""
    enqueue_many(db, [{"task": "share", "queue": "shared", "tenant": tenant} for _ in range(jobs)])


def done(db: Session, tenant: str) -> int:
    """How many of a tenant's jobs are done."""
    return int(scalar(db, "select count(*) from wakeful.finished_job where tenant = %s", tenant))
