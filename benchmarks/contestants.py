"""All systems, and who takes part in a run."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.bare import asyncpg, functions, psycopg
from benchmarks.ours import inside, wakeful
from benchmarks.peers import (
    absurd,
    awa,
    celery,
    chancy,
    dbos,
    graphile_worker,
    oban,
    pg_boss,
    pgqueuer,
    procrastinate,
    saq,
    taskiq,
)
from benchmarks.system import System

OURS = wakeful.SYSTEM
BARE = (
    psycopg.SYSTEM,
    asyncpg.SYSTEM,
    psycopg.NOTIFYING,
    asyncpg.NOTIFYING,
    asyncpg.HEARING,
    functions.SYSTEM,
    *inside.SYSTEMS,
)
PEERS = (
    pgqueuer.SYSTEM,
    graphile_worker.SYSTEM,
    pg_boss.SYSTEM,
    procrastinate.SYSTEM,
    oban.SYSTEM,
    chancy.SYSTEM,
    saq.SYSTEM,
    awa.SYSTEM,
    dbos.SYSTEM,
    absurd.SYSTEM,
    celery.SYSTEM,
    taskiq.SYSTEM,
)
# Fast, and quick to install: the ones to beat.
FEW = (pgqueuer.SYSTEM, graphile_worker.SYSTEM)


def chosen(peers: Sequence[str]) -> list[System]:
    """wakeful, the bare drivers, and the peers that are named; `all`, `few` and `none` stand for groups."""
    match list(peers):
        case ["all"]:
            return [OURS, *BARE, *PEERS]
        case ["few"]:
            return [OURS, *BARE, *FEW]
        case ["none"]:
            return [OURS, *BARE]
    known = {system.name: system for system in PEERS}
    return [OURS, *BARE, *(known[name] for name in peers)]
