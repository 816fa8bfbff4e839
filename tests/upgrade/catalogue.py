"""Everything that PostgreSQL knows of the schema, as sorted lines, so that two databases can be compared."""

from __future__ import annotations

from typing import Any

import psycopg

_RELATIONS = """
    select format('%s %s persistence=%s options=%s partition by=%s bound=%s access=%s', c.relkind, c.relname,
        c.relpersistence, c.reloptions, pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid),
        (select amname from pg_am where oid = c.relam))
    from pg_class c where c.relnamespace = 'wakeful'::regnamespace and c.relkind not in ('i', 'I', 't')
"""
_COLUMNS = """
    select format('column %s.%s %s: %s null=%s default=%s identity=%s generated=%s collation=%s storage=%s',
        c.relname, row_number() over (partition by c.oid order by a.attnum), a.attname,
        format_type(a.atttypid, a.atttypmod), not a.attnotnull, pg_get_expr(d.adbin, d.adrelid),
        a.attidentity, a.attgenerated, nullif(a.attcollation, 0)::regcollation, a.attstorage)
    from pg_attribute a
    join pg_class c on c.oid = a.attrelid and c.relkind not in ('i', 'I', 't')
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where c.relnamespace = 'wakeful'::regnamespace and a.attnum > 0 and not a.attisdropped
"""
_CONSTRAINTS = """
    select format('constraint %s on %s%s: %s validated=%s', conname, nullif(conrelid, 0)::regclass,
        nullif(contypid, 0)::regtype, pg_get_constraintdef(oid), convalidated)
    from pg_constraint where connamespace = 'wakeful'::regnamespace
"""
_INDEXES = """
    select format('index %s valid=%s', pg_get_indexdef(i.indexrelid), i.indisvalid)
    from pg_index i join pg_class c on c.oid = i.indexrelid where c.relnamespace = 'wakeful'::regnamespace
"""
_FUNCTIONS = """
    select format('function %s %s', p.oid::regprocedure,
        case when p.prokind = 'a' then 'aggregate' else pg_get_functiondef(p.oid) end)
    from pg_proc p where p.pronamespace = 'wakeful'::regnamespace
"""
_TRIGGERS = """
    select format('trigger %s enabled=%s', pg_get_triggerdef(t.oid), t.tgenabled)
    from pg_trigger t join pg_class c on c.oid = t.tgrelid
    where c.relnamespace = 'wakeful'::regnamespace and not t.tgisinternal
"""
_VIEWS = """
    select format('view %s: %s', c.relname, pg_get_viewdef(c.oid))
    from pg_class c where c.relnamespace = 'wakeful'::regnamespace and c.relkind in ('v', 'm')
"""
_SEQUENCES = """
    select format('sequence %s %s start=%s min=%s max=%s step=%s cycle=%s cache=%s', sequencename, data_type,
        start_value, min_value, max_value, increment_by, cycle, cache_size)
    from pg_sequences where schemaname = 'wakeful'
"""
_TYPES = """
    select format('type %s %s of %s null=%s default=%s labels=%s', t.typtype, t.typname,
        nullif(t.typbasetype, 0)::regtype, not t.typnotnull, t.typdefault,
        (select array_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid))
    from pg_type t where t.typnamespace = 'wakeful'::regnamespace and t.typtype in ('d', 'e', 'r')
"""
_STATISTICS = """
    select pg_get_statisticsobjdef(oid) from pg_statistic_ext where stxnamespace = 'wakeful'::regnamespace
"""
_POLICIES = "select format('policy %s', p) from pg_policies p where schemaname = 'wakeful'"
_GRANTS = """
    select format('grant %s on %s to %s by owner=%s grantable=%s', acl.privilege_type, o.object,
        case when acl.grantee = 0 then 'public' else acl.grantee::regrole::text end, acl.grantor = o.owner,
        acl.is_grantable)
    from (
        select format('relation %s', relname) as object, relowner as owner, relacl as acl,
            case relkind when 'S' then 's' else 'r' end as kind
        from pg_class where relnamespace = 'wakeful'::regnamespace and relkind not in ('i', 'I', 't')
        union all
        select format('function %s', oid::regprocedure), proowner, proacl, 'f'
        from pg_proc where pronamespace = 'wakeful'::regnamespace
        union all
        select format('type %s', typname), typowner, typacl, 'T'
        from pg_type where typnamespace = 'wakeful'::regnamespace
        union all
        select format('schema %s', nspname), nspowner, nspacl, 'n' from pg_namespace where nspname = 'wakeful'
        union all
        select format('column %s.%s', c.relname, a.attname), c.relowner, a.attacl, 'c'
        from pg_attribute a join pg_class c on c.oid = a.attrelid
        where c.relnamespace = 'wakeful'::regnamespace and a.attacl is not null
    ) o
    cross join lateral aclexplode(coalesce(o.acl, acldefault(o.kind::"char", o.owner))) acl
"""
_COMMENTS = """
    select format('comment on %s %s: %s', o.type, o.identity, d.description)
    from pg_description d cross join lateral pg_identify_object(d.classoid, d.objoid, d.objsubid) o
    where o.schema = 'wakeful' or o.identity = 'wakeful'
"""

_QUESTIONS = (
    *(_RELATIONS, _COLUMNS, _CONSTRAINTS, _INDEXES, _FUNCTIONS, _TRIGGERS, _VIEWS),
    *(_SEQUENCES, _TYPES, _STATISTICS, _POLICIES, _GRANTS, _COMMENTS),
)


def catalogue(conn: psycopg.Connection[Any]) -> list[str]:
    """One entry an object or property; a function's or view's text is split into its lines."""
    with conn.transaction():
        # So that every name in every definition is written with its schema.
        conn.execute("set local search_path = pg_catalog")
        entries = sorted(str(row[0]) for question in _QUESTIONS for row in conn.execute(question).fetchall())
    return [line.rstrip() for entry in entries for line in entry.splitlines()]
