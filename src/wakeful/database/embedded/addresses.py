"""Where the server listens: a free loopback port, and a socket in a short folder of its own."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import tempfile
from pathlib import Path

from wakeful.database.embedded.account import Account
from wakeful.database.embedded.layout import Layout

# A socket's path has at most 107 bytes, which the data directory's own path may exceed.
SHORT_FOLDERS = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))


def choose_port(layout: Layout, last: int | None) -> int:
    """The port of last time, so that its DSN stays true; the directory's own; or any that is free.

    The directory's own lies below the ports that the kernel gives to outgoing connections.
    """
    own = 20_000 + int(_fingerprint(layout), 16) % 10_000
    for port in (own, 0) if last is None else (last, own, 0):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise layout.error("There is no free port on 127.0.0.1: close some programs, and start again.")


def make_socket_directory(layout: Layout, account: Account) -> Path:
    """A folder that only this account (and root) can enter, with the same name each time where possible."""
    name = f"wakeful-{account.uid}-{_fingerprint(layout)}"
    for base in SHORT_FOLDERS:
        try:
            folder = base / name
            if not _is_private(folder, account):
                return _make_private(base, name, account)
            _remove_stale_sockets(folder)
            return folder
        except OSError:
            continue
    tried = ", ".join(map(str, SHORT_FOLDERS))
    raise layout.error(f"No socket can be made in any of {tried}: make one of them writable.")


def _make_private(base: Path, name: str, account: Account) -> Path:
    folder = base / name
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        # Somebody else's, with our name: leave it to them.
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base))
    account.give(folder)
    return folder


def _remove_stale_sockets(folder: Path) -> None:
    """The lock file of a killed server's socket names a process that may be anybody's by now."""
    for file in folder.glob(".s.PGSQL.*"):
        file.unlink()


def _fingerprint(layout: Layout) -> str:
    return hashlib.sha256(os.fsencode(layout.directory)).hexdigest()[:12]


def _is_private(folder: Path, account: Account) -> bool:
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == account.uid and not found.st_mode & 0o077
