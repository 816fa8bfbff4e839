"""Looking into the system: its health, its server's vitals, one job's story. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from wakeful.statements.read import decoded
from wakeful.statements.statement import Row, Statement, nothing
from wakeful.values.report import Depth

Facts = Mapping[str, Any]

_SERVER = """
select pg_catalog.jsonb_build_object(
 'version', pg_catalog.current_setting('server_version_num')::integer,
 'settings', (select pg_catalog.jsonb_object_agg(s.name, s.setting) from pg_catalog.pg_settings s
  where s.name in ('autovacuum', 'track_counts', 'fsync', 'full_page_writes', 'synchronous_commit',
   'idle_in_transaction_session_timeout', 'default_transaction_isolation')),
 'recovering', pg_catalog.pg_is_in_recovery(),
 'clock', pg_catalog.extract('epoch', pg_catalog.clock_timestamp()),
 'backend', pg_catalog.pg_backend_pid(),
 'roles', (select pg_catalog.jsonb_agg(r.rolname order by r.rolname) from pg_catalog.pg_roles r
  where r.rolname in ('wakeful_producer', 'wakeful_worker', 'wakeful_viewer', 'wakeful_operator')),
 'functions', (select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(
   p.proname, case when l.lanname = 'plpgsql' then p.prosrc end) order by p.proname)
  from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang
  where p.pronamespace = 'wakeful'::pg_catalog.regnamespace),
 'relations', (select pg_catalog.jsonb_agg(c.relname order by c.relname) from pg_catalog.pg_class c
  where c.relnamespace = 'wakeful'::pg_catalog.regnamespace and c.relkind in ('r', 'p', 'v')
   and not c.relispartition),
 'indexes', (select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(c.relname, i.indisvalid) order by c.relname)
  from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
  where c.relnamespace = 'wakeful'::pg_catalog.regnamespace and not c.relispartition)
)::text
"""


# Names in definitions are written with their schema only where they are not found without it.
_PLAIN = "select pg_catalog.set_config('search_path', 'pg_catalog', true)"

_SHAPE = """
with relation as (
 select c.oid, c.relname from pg_catalog.pg_class c
 where c.relnamespace = 'wakeful'::pg_catalog.regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
)
-- Without quotes: which names are keywords, and are quoted, differs between versions.
select pg_catalog.json_object_agg(s.name, pg_catalog.replace(s.told, '"', ''))::text from (
 select pg_catalog.format('column %%s.%%s', r.relname, a.attname) as name,
  pg_catalog.concat_ws(' ', pg_catalog.format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
   'default ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid), case when a.attidentity <> '' then 'identity' end) as told
 from relation r join pg_catalog.pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
 left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
 union all
 select pg_catalog.format('constraint %%s', c.conname), pg_catalog.format('on %%s %%s',
   coalesce(r.relname, c.contypid::pg_catalog.regtype::text), pg_catalog.pg_get_constraintdef(c.oid))
 from pg_catalog.pg_constraint c left join relation r on r.oid = c.conrelid
 where c.connamespace = 'wakeful'::pg_catalog.regnamespace and c.contype in ('c', 'f', 'p', 'u', 'x')
  and (r.oid is not null or c.contypid <> 0)
 union all
 select pg_catalog.format('index %%s', c.relname), pg_catalog.pg_get_indexdef(i.indexrelid)
 from pg_catalog.pg_index i join relation r on r.oid = i.indrelid join pg_catalog.pg_class c on c.oid = i.indexrelid
 union all
 select pg_catalog.format('trigger %%s', t.tgname), pg_catalog.pg_get_triggerdef(t.oid)
 from pg_catalog.pg_trigger t join relation r on r.oid = t.tgrelid where not t.tgisinternal
) s
"""


def health(stuck_after: timedelta) -> Statement[Facts]:
    """How the queue stands: who works, what waits, what is dead, stuck or served by nobody."""
    return Statement("select wakeful.health(%(stuck)s::interval)::text", {"stuck": stuck_after}, _facts)


def vitals() -> Statement[Facts]:
    """What PostgreSQL knows: dead rows, the oldest snapshot, the NOTIFY queue, connections."""
    return Statement("select wakeful.vitals()::text", {}, _facts)


def depths() -> Statement[list[Depth]]:
    """How many jobs of each task wait and run."""
    return Statement(
        "select task, ready, running, oldest_seconds from wakeful.depths()",
        {},
        lambda rows: [Depth(*row) for row in rows],
    )


def explain(id: UUID) -> Statement[Facts]:
    """Why a job does not run, or what happened to it. JobNotFound for an id that nobody knows."""
    return Statement("select wakeful.explain(%(id)s::uuid)::text", {"id": id}, _facts)


def server() -> Statement[Facts]:
    """The server's version and settings, and what our schema consists of there."""
    return Statement(_SERVER, {}, _facts)


def plain_names() -> Statement[None]:
    """Have this transaction's definitions written alike, whatever the role's search_path."""
    return Statement(_PLAIN, {}, nothing)


def shape() -> Statement[Mapping[str, str]]:
    """Our tables' columns, constraints, indexes and triggers, as the server defines them. After `plain_names`."""
    return Statement(_SHAPE, {}, _facts)


def backend() -> Statement[int]:
    """Which server process answers: a pooler gives a different one from one transaction to the next."""
    return Statement("select pg_catalog.pg_backend_pid()", {}, lambda rows: int(rows[0][0]))


def _facts(rows: Sequence[Row]) -> Facts:
    found: Facts = decoded(rows[0][0])
    return found
