"""The state file: what the running server's users need to know, believed only while its processes live."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from wakeful.database.embedded.layout import Layout
from wakeful.database.embedded.process import Process, lives

SUPERVISOR = "wakeful.database.embedded.supervisor"


@dataclass(frozen=True, slots=True)
class ServerState:
    """Written by the supervisor, and by `db start` to pin it, both under the start lock."""

    supervisor: Process
    postgres: Process
    port: int
    socket_directory: str
    version: str
    binaries: str
    account: str
    started_at: str
    pinned: bool


def read_state(layout: Layout) -> ServerState | None:
    """The last server's state, whether it still runs or not."""
    try:
        found = json.loads(layout.state.read_text())
        found |= {"supervisor": Process(**found["supervisor"]), "postgres": Process(**found["postgres"])}
        return ServerState(**found)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # Written by another release, or by hand: as good as none, since nothing is lost with it but the port.
        return None


def write_state(layout: Layout, state: ServerState) -> None:
    """Replace the state file at once. The caller holds the start lock."""
    replace_file(layout.state, json.dumps(asdict(state), indent=2) + "\n")


def running_state(layout: Layout) -> ServerState | None:
    """The state of a server whose supervisor and postgres are alive, and are the processes that it names."""
    state = read_state(layout)
    if state and lives(state.supervisor, SUPERVISOR) and lives(state.postgres, "postgres"):
        return state
    return None


def replace_file(path: Path, text: str) -> None:
    """Write a private file so that a reader, or a crash, meets the old text or the new one."""
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
