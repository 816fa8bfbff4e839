"""psql on the embedded server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from wakeful.database.embedded.cluster import DATABASE, ROLE
from wakeful.database.embedded.layout import locate
from wakeful.database.embedded.locks import keep_use_across_exec
from wakeful.database.embedded.server import ensure
from wakeful.database.embedded.status import ServerStatus, status


def become_psql(directory: Path | None, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by psql, which is then the server's user; starts the server if need be."""
    ensure(directory)
    layout = locate(directory)
    found = status(directory)
    if found is None:
        raise layout.error(f"The server ended as soon as it had started: see {layout.log}.")
    psql = shutil.which("psql", path=str(found.binaries)) or shutil.which("psql")
    if psql is None:
        raise layout.error(
            "There is no psql beside the server's programs nor in PATH: install PostgreSQL's client, or give "
            "the DSN that `wakeful db status` shows to another one."
        )
    keep_use_across_exec(layout.users_lock)
    os.execve(psql, [psql, *arguments], os.environ | _environment(found))


def _environment(found: ServerStatus) -> dict[str, str]:
    """The address by environment: command lines can be read by every user of the machine."""
    return {
        "PGHOST": str(found.socket_directory),
        "PGPORT": str(found.port),
        "PGUSER": ROLE,
        "PGDATABASE": DATABASE,
    }
