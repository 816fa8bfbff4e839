"""One `postgres`: started as our direct child, waited for until it answers, ended in order."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wakeful.database.embedded.addresses import choose_port, make_socket_directory
from wakeful.database.embedded.engine import Engine
from wakeful.database.embedded.layout import Layout
from wakeful.database.embedded.process import Process, identify

SECONDS_TO_START = 300  # after a crash of a large database, recovery comes first
MOST_PORTS_TRIED = 5
# A fast shutdown, then one without a checkpoint, then none at all. Committed work survives each of them.
ENDING = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0))


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A `postgres` that takes connections."""

    child: subprocess.Popen[bytes]
    port: int
    socket_directory: Path


def start_postmaster(engine: Engine, cluster: int, last_port: int | None, settings: Mapping[str, str]) -> Postmaster:
    """Start `postgres` on the locked data directory `cluster`; returns when it takes connections."""
    layout = engine.layout
    _remove_stale_lock_file(layout)
    sockets = make_socket_directory(layout, engine.account)
    port = choose_port(layout, last_port)
    output = ""
    for _ in range(MOST_PORTS_TRIED):
        log_bytes = layout.log.stat().st_size
        child = engine.spawn(_arguments(layout, cluster, port, sockets, settings), (cluster,))
        if _becomes_ready(layout, child):
            return Postmaster(child, port, sockets)
        output = _read_from(layout.log, log_bytes)
        if "Address already in use" not in output:
            break
        # Taken since we looked. Whoever was quicker looked at the same one: take the kernel's choice instead.
        port = choose_port(layout, 0)
    raise engine.failure("PostgreSQL did not start", output)


def end_postmaster(child: subprocess.Popen[bytes]) -> None:
    """End it in order, or else the hard way; returns when it has gone."""
    for number, seconds in ENDING:
        child.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
            return


def find_postmaster(layout: Layout) -> Process | None:
    """The living `postgres` that has this data directory open, whoever started it."""
    try:
        process = identify(int(_lock_file(layout).read_text(errors="replace").split("\n", 1)[0]))
        if process is None or Path(f"/proc/{process.pid}/comm").read_text().strip() != "postgres":
            return None
        # A postmaster works from within its data directory: compare the folders, not their names.
        same = os.path.samestat(os.stat(f"/proc/{process.pid}/cwd"), layout.cluster.stat())
    except (FileNotFoundError, ProcessLookupError, PermissionError, ValueError):
        return None
    return process if same else None


def _arguments(layout: Layout, cluster: int, port: int, sockets: Path, settings: Mapping[str, str]) -> list[str]:
    given = {
        **settings,
        "port": str(port),
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": str(sockets),
        # The real path, for people who look at the list of processes.
        "wakeful.directory": str(layout.directory),
    }
    options = [part for name, value in given.items() for part in ("-c", f"{name}={value}")]
    return ["-D", f"/proc/self/fd/{cluster}", *options]


def _becomes_ready(layout: Layout, child: subprocess.Popen[bytes]) -> bool:
    """True when it takes connections, False when it has ended instead."""
    deadline = time.monotonic() + SECONDS_TO_START
    while child.poll() is None:
        with suppress(FileNotFoundError):
            lines = _lock_file(layout).read_text(errors="replace").splitlines()
            if len(lines) >= 8 and lines[0] == str(child.pid) and lines[7].strip() == "ready":
                return True
        if time.monotonic() > deadline:
            end_postmaster(child)
            raise layout.error(
                f"PostgreSQL was not ready within {SECONDS_TO_START} s: see {layout.log}, and start again."
            )
        time.sleep(0.005)
    return False


def _remove_stale_lock_file(layout: Layout) -> None:
    """Remove the `postmaster.pid` of a server that has gone: its number is anybody's by now, or a zombie's.

    PostgreSQL itself takes any living process of the same user for the old server, and refuses to start.
    """
    if foreign := find_postmaster(layout):
        raise layout.error(
            f"A PostgreSQL that wakeful did not start (process {foreign.pid}) has {layout.cluster} open: "
            "stop it, and start again."
        )
    _lock_file(layout).unlink(missing_ok=True)


def _lock_file(layout: Layout) -> Path:
    return layout.cluster / "postmaster.pid"


def _read_from(log: Path, position: int) -> str:
    with log.open("rb") as file:
        file.seek(position)
        return file.read().decode(errors="replace")
