"""The operating system's user that the server runs as: PostgreSQL refuses to run as root."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from wakeful.values.errors import EmbeddedServerError

PREFERRED = ("postgres", "nobody", "daemon", "bin")


class SwitchUser(TypedDict, total=False):
    """Arguments of subprocess.Popen."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """`name` is the number, as text, where the machine has no name for it."""

    uid: int
    gid: int
    name: str

    @property
    def is_ours(self) -> bool:
        return self.uid == os.geteuid()

    def give(self, path: Path) -> None:
        """Make this account the owner of a file or folder that we have just made."""
        if not self.is_ours:
            os.chown(path, self.uid, self.gid)

    def switch(self) -> SwitchUser:
        """What makes a child process run as this account."""
        return {} if self.is_ours else {"user": self.uid, "group": self.gid, "extra_groups": []}


def choose_account(cluster: Path) -> Account:
    """Ourselves; as root, the owner of the data directory, or an unprivileged user that exists."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), _name_of(os.geteuid()))
    if cluster.exists():
        return _owner_of(cluster)
    for name in PREFERRED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid, entry.pw_name)
    raise EmbeddedServerError(
        f"PostgreSQL does not run as root, and this machine has none of the users {', '.join(PREFERRED)}: "
        "run as a normal user, or set WAKEFUL_DSN to use a server that is already there."
    )


def _owner_of(cluster: Path) -> Account:
    found = cluster.stat()
    if found.st_uid == 0:
        raise EmbeddedServerError(
            f"{cluster} belongs to root, and PostgreSQL does not run as root: "
            f"give it back with `chown -R postgres {cluster}` (or to another user), and start again.",
            directory=str(cluster.parent),
        )
    return Account(found.st_uid, found.st_gid, _name_of(found.st_uid))


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
