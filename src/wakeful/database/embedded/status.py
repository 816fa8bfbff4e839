"""What can be read about a server: its address, its processes, its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from wakeful.database.embedded.cluster import DATABASE, ROLE
from wakeful.database.embedded.layout import Layout, is_there, locate, no_password
from wakeful.database.embedded.state import ServerState, running_state


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A running server. `pinned` ones stay until they are stopped; others end with their last user."""

    dsn: str
    socket_dsn: str
    directory: Path
    data_directory: Path
    log: Path
    port: int
    socket_directory: Path
    pid: int
    supervisor_pid: int
    version: str
    binaries: Path
    account: str
    started_at: str
    pinned: bool


def status(directory: Path | None = None) -> ServerStatus | None:
    """The server that runs in `directory`; None if none does. Starts nothing, and waits for nobody."""
    layout = locate(directory)
    state = running_state(layout) if is_there(layout) else None
    return describe_server(layout, state) if state else None


def describe_server(layout: Layout, state: ServerState) -> ServerStatus:
    """The state with the addresses that follow from it."""
    try:
        password = layout.password.read_text().strip()
    except FileNotFoundError as error:
        raise no_password(layout) from error
    sockets = quote(state.socket_directory, safe="")
    return ServerStatus(
        dsn=f"postgresql://{ROLE}:{password}@127.0.0.1:{state.port}/{DATABASE}",
        socket_dsn=f"postgresql://{ROLE}:{password}@/{DATABASE}?host={sockets}&port={state.port}",
        directory=layout.directory,
        data_directory=layout.cluster,
        log=layout.log,
        port=state.port,
        socket_directory=Path(state.socket_directory),
        pid=state.postgres.pid,
        supervisor_pid=state.supervisor.pid,
        version=state.version,
        binaries=Path(state.binaries),
        account=state.account,
        started_at=state.started_at,
        pinned=state.pinned,
    )
