"""Locks that the kernel releases when their holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wakeful.database.embedded.layout import unwritable

# Directory → descriptor. Descriptors and their locks pass to forked children, which need the server as well.
_uses: dict[Path, int] = {}


def open_lock(path: Path) -> int:
    """A descriptor to lock; the file is made if missing."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise unwritable(path.parent, error) from error


@contextmanager
def held(path: Path) -> Iterator[int]:
    """Hold `path` exclusively, waiting for it; gives the descriptor."""
    descriptor = open_lock(path)
    try:
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
    return users_lock in _uses


def end_use(users_lock: Path) -> None:
    """Count this process among the users no longer. Idempotent."""
    if (descriptor := _uses.pop(users_lock, None)) is not None:
        os.close(descriptor)


def keep_use_across_exec(users_lock: Path) -> None:
    """Let the program that replaces this process remain a user."""
    os.set_inheritable(_uses[users_lock], True)
