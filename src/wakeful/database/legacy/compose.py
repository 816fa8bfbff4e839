"""The statements on a home-made table, composed of quoted names and parameters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from psycopg import sql

from wakeful.database.legacy.catalogue import Found, of_table, quoted

# As they are, for the function's type to read.
_PLAIN: Final = ("priority", "run_at", "attempt", "created_at", "finished_at", "error_at", "result")
_TEXTS: Final = ("queue", "dedup_key", "tenant", "correlation_id", "parent", "created_by", "error", "error_code")


@dataclass(frozen=True, slots=True)
class Choice:
    """Which rows: those that wait, with `finished` those that are over, and those in progress since before a moment."""

    finished: bool = False
    claimed_before: datetime | None = None


Query = tuple[sql.Composed, dict[str, Any]]


def pick(found: Found, choice: Choice, after: str | None, limit: int) -> Query:
    """Lock up to `limit` rows behind a key, in key order; the answer is their keys."""
    states = {word: list(found.mapping.states.get(word, ())) for word in ("waiting", "running", "completed", "dead")}
    params: dict[str, Any] = {"after": after, "limit": limit, "claimed_before": choice.claimed_before, **states}
    key = of_table(found.mapping.key)
    behind = sql.SQL("") if after is None else sql.SQL(" and {} > %(after)s::text::{}").format(key, found.key_type)
    query = sql.SQL(
        "select {key}::text from {table} t where ({wanted}){behind}"
        " order by {key} limit %(limit)s for update of t skip locked"
    ).format(key=key, table=found.name, wanted=sql.SQL(" or ").join(_wanted(found, choice)), behind=behind)
    return query, params


def read(found: Found, keys: Sequence[str]) -> Query:
    """The rows of these keys in key order, each its JSON as a legacy_row."""
    mapping = found.mapping
    params: dict[str, Any] = {"keys": list(keys), "tasks": json.dumps(dict(mapping.tasks))}
    params |= {word: list(mapping.states.get(word, ())) for word in ("completed", "dead")}
    params |= {f"constant_{name}": value for name, value in mapping.constants.items()}
    params |= {f"payload_{place}": name for place, name in enumerate(mapping.payload)}
    query = sql.SQL("select jsonb_build_object({row})::text from {table} t {where} order by {key}").format(
        row=_row(found), table=found.name, where=_where_key(found), key=of_table(mapping.key)
    )
    return query, params


def count_states(found: Found) -> Query:
    """How many rows the table has of each of its own words."""
    state = found.column("state")
    return sql.SQL("select {}::text, count(*) from {} t group by 1 order by 1").format(state, found.name), {}


def remove(found: Found, keys: Sequence[str]) -> Query | None:
    """Take the rows that have moved out of the old worker's sight; None where they are to stay as they are."""
    mapping = found.mapping
    where = _where_key(found)
    match mapping.take:
        case "delete":
            return sql.SQL("delete from {} t {}").format(found.name, where), {"keys": list(keys)}
        case "mark":
            changes = [
                sql.SQL("{} = {}").format(quoted(name), sql.Placeholder(f"mark_{place}"))
                for place, name in enumerate(mapping.mark)
            ]
            values = {f"mark_{place}": value for place, value in enumerate(mapping.mark.values())}
            query = sql.SQL("update {} t set {} {}").format(found.name, sql.SQL(", ").join(changes), where)
            return query, {"keys": list(keys), **values}
        case "leave":
            return None


def restore(found: Found, originals: Sequence[str]) -> Query | None:
    """Put rows back as they were; None where they have stayed."""
    mapping = found.mapping
    rows = sql.SQL("jsonb_populate_recordset(null::{}, %(rows)s::jsonb) r").format(found.name)
    params = {"rows": f"[{','.join(originals)}]"}
    match mapping.take:
        case "delete":
            columns = [quoted(name) for name in found.columns]
            query = sql.SQL("insert into {} ({}) overriding system value select {} from {}").format(
                found.name, sql.SQL(", ").join(columns), sql.SQL(", ").join(_of("r", columns)), rows
            )
            return query, params
        case "mark":
            changes = [sql.SQL("{0} = r.{0}").format(quoted(name)) for name in mapping.mark]
            query = sql.SQL("update {} t set {} from {} where {} = r.{}").format(
                found.name, sql.SQL(", ").join(changes), rows, of_table(mapping.key), quoted(mapping.key)
            )
            return query, params
        case "leave":
            return None


def _where_key(found: Found) -> sql.Composed:
    return sql.SQL("where {} = any (%(keys)s::text[]::{}[])").format(of_table(found.mapping.key), found.key_type)


def _of(alias: str, columns: Sequence[sql.Identifier]) -> list[sql.Composed]:
    return [sql.SQL("{}.{}").format(quoted(alias), column) for column in columns]


def _wanted(found: Found, choice: Choice) -> list[sql.Composable]:
    state = found.column("state")
    conditions: list[sql.Composable] = [sql.SQL("{}::text = any (%(waiting)s::text[])").format(state)]
    if choice.finished:
        conditions.append(sql.SQL("{}::text = any (%(completed)s::text[] || %(dead)s::text[])").format(state))
    if choice.claimed_before is not None:
        since = [one for name in ("claimed_at", "started_at", "created_at") if (one := found.column(name)) is not None]
        # A row that tells nothing of its claim has not aged.
        aged = sql.SQL("coalesce({}) <= %(claimed_before)s").format(sql.SQL(", ").join([*since, sql.SQL("null")]))
        conditions.append(sql.SQL("({}::text = any (%(running)s::text[]) and {})").format(state, aged))
    return conditions


def _row(found: Found) -> sql.Composable:
    """The arguments of jsonb_build_object."""
    state, key = found.column("state"), of_table(found.mapping.key)
    words = sql.SQL(
        "case when {0}::text = any (%(completed)s) then 'completed' when {0}::text = any (%(dead)s) then 'dead'"
        " else 'waiting' end"
    ).format(state)
    members: dict[str, sql.Composable | None] = {
        "key": sql.SQL("{}::text").format(key),
        "state": words,
        "task": _task(found),
        "payload": _payload(found),
        "max_attempts": _max_attempts(found),
        "started_at": found.column("started_at") or found.column("claimed_at"),
        "original": sql.SQL("to_jsonb(t)"),
    }
    members |= {name: _or_constant(found, name, found.column(name)) for name in _PLAIN}
    members |= {name: _or_constant(found, name, _as_text(found.column(name))) for name in _TEXTS}
    told = [sql.SQL("{}, {}").format(sql.Literal(name), one) for name, one in members.items() if one is not None]
    return sql.SQL(", ").join(told)


def _as_text(column: sql.Composed | None) -> sql.Composed | None:
    return None if column is None else sql.SQL("{}::text").format(column)


def _or_constant(found: Found, name: str, value: sql.Composed | None) -> sql.Composable | None:
    constant = found.mapping.constants.get(name)
    if constant is None:
        return value
    given = sql.SQL("{}::{}").format(
        sql.Placeholder(f"constant_{name}"), sql.SQL("integer" if isinstance(constant, int) else "text")
    )
    return given if value is None else sql.SQL("coalesce({}, {})").format(value, given)


def _task(found: Found) -> sql.Composable | None:
    column = _as_text(found.column("task"))
    renamed = None if column is None else sql.SQL("coalesce(%(tasks)s::jsonb ->> {0}, {0})").format(column)
    return _or_constant(found, "task", renamed)


def _payload(found: Found) -> sql.Composable | None:
    if not found.mapping.payload:
        return found.column("payload")
    members = [
        sql.SQL("{}::text, {}").format(sql.Placeholder(f"payload_{place}"), of_table(column))
        for place, column in enumerate(found.mapping.payload.values())
    ]
    return sql.SQL("jsonb_build_object({})").format(sql.SQL(", ").join(members))


def _max_attempts(found: Found) -> sql.Composable | None:
    retries = found.column("max_retries")
    starts = found.column("max_attempts") or (None if retries is None else sql.SQL("{} + 1").format(retries))
    return _or_constant(found, "max_attempts", starts)
