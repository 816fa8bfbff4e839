"""The server's verbs: ensure that it runs, release it, stop it, remove its data."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from wakeful.database.embedded.binaries import find_binaries
from wakeful.database.embedded.cluster import major_of
from wakeful.database.embedded.launch import launch
from wakeful.database.embedded.layout import Layout, is_there, locate, prepare, unwritable
from wakeful.database.embedded.locks import end_use, held, in_use, used
from wakeful.database.embedded.postmaster import ENDING, find_postmaster
from wakeful.database.embedded.process import end
from wakeful.database.embedded.request import Request, check_settings
from wakeful.database.embedded.state import (
    SUPERVISOR,
    ServerState,
    read_state,
    running_state,
    write_state,
)
from wakeful.database.embedded.status import describe_server
from wakeful.values.errors import EmbeddedServerError

LINGER_SECONDS = 10.0
SECONDS_TO_STOP = 60.0


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """A running server. `dsn` is over TCP and goes anywhere; `socket_dsn` is faster, for this user only."""

    dsn: str
    socket_dsn: str
    port: int
    directory: Path
    pid: int
    version: str


def ensure(
    directory: Path | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    pinned: bool = False,
    linger_seconds: float = LINGER_SECONDS,
) -> EmbeddedServer:
    """Start the server of `directory`, or join the one that runs; it stays while this process lives.

    Blocks: about a second the first time, milliseconds to join. `settings` are extra server settings, and
    `linger_seconds` is how long the server waits for another user after its last; both count only in the call
    that starts it. `pinned` keeps it running until `stop`.
    """
    if sys.platform != "linux":
        raise EmbeddedServerError(
            "The embedded server runs on Linux only: set WAKEFUL_DSN to use a server that is already there."
        )
    check_settings(settings or {})
    layout = locate(directory)
    if in_use(layout.users_lock) and not pinned and (state := running_state(layout)):
        return _server_of(layout, state)
    prepare(layout)
    with held(layout.start_lock) as start_lock, used(layout.users_lock):
        state = _join(layout, pinned)
        if state is None:
            found = find_binaries(major_of(layout.cluster))
            folder, version = str(found.folder), found.version
            request = Request(folder, version, start_lock, pinned, linger_seconds, settings or {})
            state = launch(layout, request)
        return _server_of(layout, state)


def release(directory: Path | None = None) -> None:
    """Let the server of `directory` end before this process does. Idempotent."""
    end_use(locate(directory).users_lock)


def stop(directory: Path | None = None) -> bool:
    """End the server at once, whoever uses it; True if there was one. Committed work is kept."""
    layout = locate(directory)
    if not is_there(layout):
        return False
    with held(layout.start_lock):
        return _stop(layout)


def reset(directory: Path | None = None) -> bool:
    """Stop the server and remove its data; True if there was any. Refuses data that wakeful did not make."""
    layout = locate(directory)
    if not is_there(layout):
        return False
    with held(layout.start_lock):
        present = layout.cluster.exists()
        if present and not layout.mark.exists():
            raise layout.error(
                f"{layout.cluster} was not made by wakeful, so nothing was removed: "
                "choose another --directory, or remove it yourself."
            )
        _stop(layout)
        _remove(layout)
    return present


def _join(layout: Layout, pinned: bool) -> ServerState | None:
    state = running_state(layout)
    if state and pinned and not state.pinned:
        state = replace(state, pinned=True)
        write_state(layout, state)
    return state


def _remove(layout: Layout) -> None:
    """Remove the data and what belongs to it; the locks stay, others may be waiting for them."""
    try:
        for folder in (layout.cluster, layout.unfinished_cluster):
            if folder.exists():
                shutil.rmtree(folder)
        for file in (layout.password, layout.state, layout.log):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(layout.directory, error) from error


def _stop(layout: Layout) -> bool:
    """End supervisor and postgres, in this order; an orphaned postgres too."""
    state = read_state(layout)
    running = running_state(layout) is not None
    gone = state is None or end(state.supervisor, SUPERVISOR, ((signal.SIGTERM, SECONDS_TO_STOP),))
    if orphan := find_postmaster(layout):
        running = True
        gone = end(orphan, "postgres", ENDING) and gone
    if not gone:
        raise layout.error(
            f"The server in {layout.directory} did not end within {SECONDS_TO_STOP:.0f} s: see {layout.log}."
        )
    if state:
        # Left behind if the supervisor was killed.
        with suppress(OSError):
            Path(state.socket_directory).rmdir()
    return running


def _server_of(layout: Layout, state: ServerState) -> EmbeddedServer:
    found = describe_server(layout, state)
    return EmbeddedServer(found.dsn, found.socket_dsn, found.port, found.directory, found.pid, found.version)
