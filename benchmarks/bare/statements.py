"""Tables just like wakeful's, and the least SQL that carries a job through its life.

Written for psycopg; asyncpg's form numbers the parameters.
"""

from __future__ import annotations

import re

from wakeful.database.connect import connect
from wakeful.database.migrations import up

TABLES = """
create schema bare;
create table bare.job (like wakeful.job including all) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
create table bare.finished_job (like wakeful.finished_job including all);
"""

_COLUMNS = """insert into bare.job (id, queue, task, state, rank, max_attempts, pokes, run_at, ready_at, created_at,
    updated_at, correlation_id, payload)"""

INSERT_ONE = f"""{_COLUMNS}
values (%s::uuid, 'default', 'noop', 1, 0, 5, false, now(), now(), now(), now(), %s::uuid, %s::jsonb)"""

INSERT_ONE_AND_NOTIFY = (
    f"with made as ({INSERT_ONE} returning payload) select pg_notify('bare', payload::text) from made"
)

NOTIFY = "select pg_notify('bare', '')"

INSERT_MANY = f"""{_COLUMNS}
select u.id, 'default', 'noop', 1, 0, 5, false, now(), now(), now(), now(), u.id, u.payload::jsonb
from unnest(%s::uuid[], %s::text[]) u(id, payload)"""

CLAIM = """with picked as materialized (
    select id from bare.job where queue = 'default' and task = 'noop' and state = 1
    order by rank, ready_at, id limit %s::integer for update skip locked)
update bare.job j set state = 2, attempt = attempt + 1, epoch = epoch + 1, worker_id = %s::uuid, started_at = now(),
    updated_at = now()
from picked where j.id = picked.id returning j.id, j.payload::text"""

_HISTORY = """id, queue, task, state, rank, attempt, max_attempts, epoch, run_at, ready_at, started_at, finished_at,
    expires_at, created_at, worker_id, correlation_id, parent_id, origin_id, dedup_key, tenant, created_by, payload,
    metadata, attempts"""

SETTLE = f"""with gone as (delete from bare.job where id = any (%s::uuid[]) returning *)
insert into bare.finished_job ({_HISTORY})
select {_HISTORY.replace(" state,", " 3,").replace("finished_at", "now()")} from gone"""

UNFINISHED = "select exists (select from bare.job)"


def numbered(statement: str) -> str:
    """With $1, $2, … for %s."""
    places = iter(range(1, statement.count("%s") + 1))
    return re.sub("%s", lambda _: f"${next(places)}", statement)


def make_tables(dsn: str) -> None:
    """wakeful's schema, and beside it copies of its tables: same columns, checks and indexes."""
    with connect(dsn, name="wakeful bench") as conn:
        up(conn)
        conn.execute(TABLES.encode())
