"""The private PostgreSQL: default durability, statements counted, a fresh database for every measurement."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from wakeful.database.embedded import EmbeddedServer, ensure, reset, stop
from wakeful.database.embedded.binaries import find_binaries

# Room for a working set, and statements counted. Everything that decides durability is left as it is by default.
SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "max_connections": "300",
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.max": "10000",
}

Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Counters:
    """What the server has done in one database so far."""

    wal_bytes: int
    commits: int
    dead_tuples: int
    cpu_seconds: float


class Server:
    """Creates, copies and drops databases, and tells what was done in them."""

    def __init__(self, embedded: EmbeddedServer) -> None:
        self.version = embedded.version
        self.pid = embedded.pid
        self.programs = find_binaries(None).folder
        self._address = {name: str(value) for name, value in conninfo_to_dict(embedded.dsn).items()}
        self.admin: Connection = psycopg.connect(self.dsn("postgres"), autocommit=True)
        self.admin.execute("create extension if not exists pg_stat_statements")

    def dsn(self, database: str) -> str:
        """A URL, which every client library understands."""
        parts = self._address
        return f"postgresql://{parts['user']}:{parts['password']}@{parts['host']}:{parts['port']}/{database}"

    def create(self, database: str, template: str = "template0") -> None:
        """A database; whatever had the name is dropped first."""
        self.drop(database)
        names = sql.Identifier(database), sql.Identifier(template)
        self.admin.execute(sql.SQL("create database {} template {}").format(*names))

    def drop(self, database: str) -> None:
        """Drop it, whoever is connected."""
        self.admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(database)))

    def exists(self, database: str) -> bool:
        """Whether there is such a database."""
        return bool(self.admin.execute("select from pg_database where datname = %s", [database]).fetchall())

    def settle(self, database: str) -> None:
        """Fresh statistics and an empty write-ahead log buffer, so that nobody pays for what came before."""
        with self.connect(database) as conn:
            conn.execute("analyze")
        self.admin.execute("checkpoint")

    def connect(self, database: str) -> Connection:
        """A connection in autocommit mode; use it in a `with`."""
        return psycopg.connect(self.dsn(database), autocommit=True)

    def counters(self, database: str) -> Counters:
        """Since the database was made; write-ahead log and processor time are the whole server's."""
        with self.connect(database) as conn:
            [(wal, commits, dead)] = conn.execute(
                """select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
                    (select xact_commit from pg_stat_database where datname = current_database()),
                    (select coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint from pg_stat_user_tables)"""
            ).fetchall()
        return Counters(wal, commits, dead, _cpu_seconds(self.pid))

    def calls(self, database: str) -> dict[str, int]:
        """How often each statement was sent to the database, BEGIN and COMMIT included."""
        rows = self.admin.execute(
            """select s.query, sum(s.calls)::bigint from pg_stat_statements s
                join pg_database d on d.oid = s.dbid where d.datname = %s and s.toplevel group by 1""",
            [database],
        )
        return dict(rows.fetchall())

    def settings(self) -> dict[str, str]:
        """What decides durability, and what is not as PostgreSQL has it by default."""
        rows = self.admin.execute(
            """select name, current_setting(name) from pg_settings
            where name in ('fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method')
                or source in ('configuration file', 'command line')
                    and name !~ '(directory|directories|file|port|addresses|log_|lc_|default_text|TimeZone)'
            order by name"""
        )
        return dict(rows.fetchall())


def _cpu_seconds(postmaster: int) -> float:
    """Processor time of the postmaster and all its children, those that have ended included."""
    ticks = 0
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(process.name) == postmaster:
            ticks += sum(int(field) for field in fields[11:15])
        elif int(fields[1]) == postmaster:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def running_server(directory: Path) -> Iterator[Server]:
    """A cluster made for this run, stopped at its end; whatever the last run left is removed."""
    reset(directory)
    server = Server(ensure(directory, settings=SETTINGS, linger_seconds=1))
    try:
        yield server
    finally:
        server.admin.close()
        stop(directory)
