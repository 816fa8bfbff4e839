"""What the server knows of the table: whether it is there, its columns, and what its key is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

from wakeful.values.errors import ConfigError
from wakeful.values.legacy import LegacyTable

# With its length: `character` alone is one letter, and a key that is cut to it finds no row, or another one.
_COLUMNS: Final = """
select a.attname, format_type(a.atttypid, a.atttypmod), a.attgenerated <> ''
from pg_catalog.pg_attribute a
where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped
order by a.attnum
"""

# A key that two rows share would make one job of both: only a unique index can promise that there are none.
_UNIQUE: Final = """
select exists (
    select from pg_catalog.pg_index i
    join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
    where i.indrelid = %s::regclass and i.indisunique and i.indisvalid and i.indnkeyatts = 1 and i.indpred is null
      and a.attname = %s)
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A table that is there and fits its mapping. `columns` are those that a row may be written with."""

    mapping: LegacyTable
    columns: tuple[str, ...]
    key_type: sql.SQL

    @property
    def name(self) -> sql.Identifier:
        """The table's name for a statement."""
        return quoted(*self.mapping.table)

    def column(self, field: str) -> sql.Composed | None:
        """The column that means this, of the table as `t`; None where the mapping names none."""
        named = self.mapping.columns.get(field)
        return None if named is None else of_table(named.names[0])


def quoted(*names: str) -> sql.Identifier:
    """A name in a statement with parameters, where a percent sign is written twice."""
    return sql.Identifier(*(name.replace("%", "%%") for name in names))


def of_table(name: str) -> sql.Composed:
    """A column of the table as `t`."""
    return sql.SQL("t.{}").format(quoted(name))


def look_up(conn: psycopg.Connection[Any], mapping: LegacyTable) -> Found:
    """The table as it is; ConfigError when it is not there, does not fit, or has no unique key."""
    told = ".".join(mapping.table)
    regclass = sql.Identifier(*mapping.table).as_string(conn)
    [(known,)] = conn.execute("select to_regclass(%s) is not null", [regclass]).fetchall()
    if not known:
        raise ConfigError("table", f"{told} is not in this database: name the schema too, such as public.jobs.")
    columns = conn.execute(_COLUMNS, [regclass]).fetchall()
    fitted = mapping.fitted(name for name, _, _ in columns)
    [(unique,)] = conn.execute(_UNIQUE, [regclass, mapping.key]).fetchall()
    if not unique:
        raise ConfigError("key", f"{mapping.key} has no unique index in {told}: name the primary key, or add one.")
    types = {name: kind for name, kind, _ in columns}
    writable = tuple(name for name, _, generated in columns if not generated)
    # format_type quotes what needs it.
    return Found(fitted, writable, sql.SQL(types[mapping.key]))
