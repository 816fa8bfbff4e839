"""Locks that the kernel releases when their holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wakeful.database.embedded.layout import unwritable

LAST_STANDARD_STREAM = 2

# Lock file → descriptor. Both pass to forked children, which need the server as well. Changed under the start
# lock, which excludes other threads too: a lock of Python's own could be forked in its locked state.
_uses: dict[Path, int] = {}


def open_lock(path: Path) -> int:
    """A descriptor to lock; the file is made if missing."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if descriptor > LAST_STANDARD_STREAM:
            return descriptor
        # A daemon that closed its standard streams would write to the lock, or hand it down as its input.
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, LAST_STANDARD_STREAM + 1)
        os.close(descriptor)
        return moved
    except OSError as error:
        raise unwritable(path.parent, error) from error


@contextmanager
def held(path: Path) -> Iterator[int]:
    """Hold `path` exclusively, waiting for it; gives the descriptor."""
    descriptor = open_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        while not _is_still(path, descriptor):
            os.close(descriptor)
            descriptor = open_lock(path)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
        # Closing alone would not do: a child that another thread forked meanwhile has the descriptor too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def try_hold(descriptor: int) -> bool:
    """Hold an open file exclusively if nobody holds it at all."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def used(users_lock: Path) -> Iterator[None]:
    """Count this process among the users until `end_use` or its end; only an error in the block undoes it."""
    before = in_use(users_lock)
    if not before:
        end_use(users_lock)
        descriptor = open_lock(users_lock)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        _uses[users_lock] = descriptor
    try:
        yield
    except BaseException:  # whatever it is, the server has one user less
        if not before:
            end_use(users_lock)
        raise


def in_use(users_lock: Path) -> bool:
    """Whether this process is counted among the users."""
    return users_lock in _uses and _is_still(users_lock, _uses[users_lock])


def end_use(users_lock: Path) -> None:
    """Count this process among the users no longer. Idempotent."""
    if (descriptor := _uses.pop(users_lock, None)) is not None:
        os.close(descriptor)


def keep_use_across_exec(users_lock: Path) -> None:
    """Let the program that replaces this process remain a user."""
    os.set_inheritable(_uses[users_lock], True)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the open file is the one of this name: people remove `.wakeful` by hand."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
