"""Where the tests' databases lie: in memory, where there is some to spare.

A clone is 500 small files that are gone a moment later. ext4 does not use the place of a file again for a minute,
and looks at every such place whenever it makes a file: clones that follow each other there take ten times as long.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from wakeful.database.embedded import locate, reset
from wakeful.database.embedded.locks import held

TABLESPACE = "wakeful_memory"
SHARED_MEMORY = Path("/dev/shm")
# A test may well fill a table: a small share of memory, such as a container has, is left alone.
BYTES_TO_SPARE = 2 << 30


def reserve(admin: psycopg.Connection[Any]) -> str | None:
    """The tablespace in memory of a server on this machine, made if missing; None where there is no room for it."""
    found = admin.execute("select 1 from pg_tablespace where spcname = %s", [TABLESPACE]).fetchone()
    if found is not None:
        return TABLESPACE
    if not os.access(SHARED_MEMORY, os.W_OK) or shutil.disk_usage(SHARED_MEMORY).free < BYTES_TO_SPARE:
        return None
    folder = tempfile.mkdtemp(prefix="wakeful-tests-", dir=SHARED_MEMORY)
    server = Path(f"/proc/{admin.info.backend_pid}").stat()
    os.chown(folder, server.st_uid, server.st_gid)
    statement = sql.SQL("create tablespace {} location {}")
    admin.execute(statement.format(sql.Identifier(TABLESPACE), sql.Literal(folder)))
    return TABLESPACE


def forget_what_is_lost(directory: Path) -> None:
    """Remove the server whose databases in memory went with a restart of the machine: its next start would fail."""
    layout = locate(directory)
    if _lost(layout.cluster):
        with held(layout.directory / "memory.lock"):
            # Whoever held the lock before may have done it.
            if _lost(layout.cluster):
                reset(directory)


def _lost(cluster: Path) -> bool:
    links = cluster / "pg_tblspc"
    return links.is_dir() and any(not link.exists() for link in links.iterdir())
