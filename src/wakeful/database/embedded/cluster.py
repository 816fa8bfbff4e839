"""The data directory: made whole or not at all, and opened by one server at a time.

Programs reach it as `/proc/self/fd/N`, an open directory that they inherit. So the folders above it need not
be open to the account that runs the server, and its path may be of any length and in any script. The same
descriptor carries an exclusive lock: it is free again only when the server's last process has gone.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from wakeful.database.embedded.account import Account
from wakeful.database.embedded.engine import Engine
from wakeful.database.embedded.layout import Layout, no_password
from wakeful.database.embedded.locks import try_hold
from wakeful.database.embedded.postmaster import find_postmaster
from wakeful.database.embedded.process import identify, lives, parent_of
from wakeful.database.embedded.state import SUPERVISOR, replace_file, sync_folder

ROLE = "wakeful"
DATABASE = "wakeful"
SECONDS_FOR_THE_LAST_SERVER_TO_END = 60

# Durability is left as PostgreSQL has it: on.
SETTINGS = """\
# Written by wakeful, which takes a data directory with this file for its own.
max_connections = 200
shared_buffers = '128MB'
timezone = 'UTC'
# The role has the name of our schema: without this, users' tables would land among the jobs.
search_path = 'public'
log_timezone = 'UTC'
log_checkpoints = off
jit = off
"""
# With the password; on the socket, where the kernel says who asks, its owner and root need none.
ACCESS = f"""\
local all {ROLE} peer map=wakeful
local all all scram-sha-256
host all all 127.0.0.1/32 scram-sha-256
"""


def major_of(cluster: Path) -> int | None:
    """The major version that made this data directory; None if there is none."""
    try:
        return int((cluster / "PG_VERSION").read_text())
    except (FileNotFoundError, ValueError):
        return None


def open_cluster(engine: Engine, settings: Mapping[str, str]) -> int:
    """The data directory as a locked descriptor; made if missing. Waits for a server that is just ending."""
    layout = engine.layout
    if not layout.cluster.exists():
        _create(engine, durable=settings.get("fsync") != "off")
    _check(engine)
    descriptor = os.open(layout.cluster, os.O_RDONLY | os.O_DIRECTORY)
    deadline = time.monotonic() + SECONDS_FOR_THE_LAST_SERVER_TO_END
    while not try_hold(descriptor):
        _refuse_a_server_without_its_state(layout)
        if time.monotonic() > deadline:
            raise layout.error(
                f"{layout.cluster} is open in a server that is slow to end, or out of sight in another "
                "container: run `wakeful db stop` there, or choose another --directory (WAKEFUL_DIRECTORY)."
            )
        time.sleep(0.02)
    return descriptor


def _check(engine: Engine) -> None:
    layout, binaries = engine.layout, engine.binaries
    made_by = major_of(layout.cluster)
    if made_by is None:
        raise layout.error(
            f"{layout.cluster} is no data directory of PostgreSQL: choose another --directory, or remove it."
        )
    if made_by != binaries.major:
        raise layout.error(
            f"The data in {layout.directory} was made by PostgreSQL {made_by}, and the programs in "
            f"{binaries.folder} are PostgreSQL {binaries.major}: set WAKEFUL_PG_BIN to the folder of a "
            f"PostgreSQL {made_by}, or remove the data with `wakeful db reset`."
        )
    if not layout.password.exists():
        raise no_password(layout)


def _refuse_a_server_without_its_state(layout: Layout) -> None:
    """One that its supervisor still watches over does not end by itself: waiting for it would be in vain."""
    running = None if layout.state.exists() else find_postmaster(layout)
    supervisor = identify(parent_of(running.pid)) if running else None
    if running and supervisor and lives(supervisor, SUPERVISOR):
        raise layout.error(
            f"{layout.state} is missing, and its server runs (process {running.pid}): run `wakeful db stop`, "
            "and start again."
        )


def _create(engine: Engine, *, durable: bool) -> None:
    layout, account = engine.layout, engine.account
    draft = layout.unfinished_cluster
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    descriptor = os.open(draft, os.O_RDONLY | os.O_DIRECTORY)
    try:
        account.give(draft)
        password = secrets.token_urlsafe(24)
        _initialise(engine, descriptor, password)
        _configure(draft, account)
        _create_database(engine, descriptor)
        if durable:
            engine.run("initdb", ["--sync-only", f"--pgdata=/proc/self/fd/{descriptor}"], (descriptor,))
        replace_file(layout.password, password + "\n")
        draft.rename(layout.cluster)
        sync_folder(layout.directory)
    finally:
        os.close(descriptor)
        # Gone by the rename, unless something failed: then its space is needed more elsewhere.
        shutil.rmtree(draft, ignore_errors=True)


def _initialise(engine: Engine, descriptor: int, password: str) -> None:
    secret = os.memfd_create("password")
    try:
        os.write(secret, password.encode() + b"\n")
        arguments = [
            f"--pgdata=/proc/self/fd/{descriptor}",
            f"--username={ROLE}",
            f"--pwfile=/proc/self/fd/{secret}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]
        # Sorted by code point on every version; 17 and later know the letters beyond ASCII as well.
        if engine.binaries.major >= 17:
            arguments += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        engine.run("initdb", arguments, (descriptor, secret))
    finally:
        os.close(secret)


def _configure(draft: Path, account: Account) -> None:
    users = {account.name} if account.is_ours else {account.name, "root"}
    (draft / "pg_hba.conf").write_text(ACCESS)
    (draft / "pg_ident.conf").write_text("".join(f'wakeful "{user}" {ROLE}\n' for user in sorted(users)))
    with (draft / "postgresql.conf").open("a") as file:
        file.write("\ninclude 'wakeful.conf'\n")
    ours = draft / "wakeful.conf"
    ours.write_text(SETTINGS)
    account.give(ours)


def _create_database(engine: Engine, descriptor: int) -> None:
    """In single-user mode, so that the data directory appears with its database in it."""
    arguments = ["--single", "-D", f"/proc/self/fd/{descriptor}", "-c", "fsync=off", "postgres"]
    engine.run("postgres", arguments, (descriptor,), "create database wakeful\n")
