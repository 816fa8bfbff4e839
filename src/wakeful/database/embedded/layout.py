"""What lies where in `.wakeful/`, and who may own it."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from wakeful.values.errors import EmbeddedServerError

LARGEST_LOG_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one embedded server. `directory` is absolute and has no symbolic links."""

    directory: Path

    @property
    def cluster(self) -> Path:
        """PostgreSQL's data directory; it appears there whole, by a rename."""
        return self.directory / "postgres"

    @property
    def unfinished_cluster(self) -> Path:
        return self.directory / "postgres.unfinished"

    @property
    def mark(self) -> Path:
        """Our settings in the data directory: what has this file was made by us, and may be removed by us."""
        return self.cluster / "wakeful.conf"

    @property
    def state(self) -> Path:
        return self.directory / "server.json"

    @property
    def password(self) -> Path:
        return self.directory / "password"

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    @property
    def start_lock(self) -> Path:
        """Held, exclusively, by whoever starts or stops the server."""
        return self.directory / "start.lock"

    @property
    def users_lock(self) -> Path:
        """Held, shared, by every process that needs the server, until the process ends."""
        return self.directory / "users.lock"

    def error(self, sentence: str) -> EmbeddedServerError:
        """The error to raise about this server."""
        return EmbeddedServerError(sentence, directory=str(self.directory))


def locate(directory: Path | None) -> Layout:
    """The layout of `directory`, or of WAKEFUL_DIRECTORY, or of `.wakeful` below the working directory."""
    chosen = directory or Path(os.environ.get("WAKEFUL_DIRECTORY") or ".wakeful")
    return Layout(Path(os.path.realpath(chosen)))


def prepare(layout: Layout) -> None:
    """Create the directory, for its owner only; refuse one that belongs to somebody else."""
    directory = layout.directory
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_owner(layout)
        ignore = directory / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
    except OSError as error:
        raise unwritable(directory, error) from error


def is_there(layout: Layout) -> bool:
    """Whether the directory exists; refuses one that belongs to somebody else."""
    if not os.path.isdir(layout.directory):
        return False
    _check_owner(layout)
    return True


def unwritable(directory: Path, error: OSError) -> EmbeddedServerError:
    """The sentence for a folder in which the operating system refuses to write."""
    if error.errno == errno.ENOSPC:
        return full(directory)
    return EmbeddedServerError(
        f"The folder {directory} cannot be written ({error.strerror}): choose another with --directory "
        "(WAKEFUL_DIRECTORY), or set WAKEFUL_DSN to use a server that is already there.",
        directory=str(directory),
    )


def full(directory: Path) -> EmbeddedServerError:
    """The sentence for a full disk."""
    return EmbeddedServerError(
        f"The disk that holds {directory} is full: free some space, and start again.",
        directory=str(directory),
    )


def no_password(layout: Layout) -> EmbeddedServerError:
    """The sentence for a lost password: the server has only its hash."""
    return layout.error(f"{layout.password} is missing: put it back, or remove the data with `wakeful db reset`.")


def keep_log_small(log: Path) -> None:
    """Set a large log aside, in place of the one set aside before."""
    if log.exists() and log.stat().st_size > LARGEST_LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
    log.touch(mode=0o600)


def _check_owner(layout: Layout) -> None:
    owner = layout.directory.stat().st_uid
    if owner != os.geteuid():
        raise layout.error(
            f"{layout.directory} belongs to user id {owner}, and this is user id {os.geteuid()}: "
            "run as its owner, or choose another --directory (WAKEFUL_DIRECTORY)."
        )
