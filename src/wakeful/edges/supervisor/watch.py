"""Which Python files have changed: found by looking at their times, which works on every kind of disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

Stamp = tuple[int, int]


class Watch:
    """The Python files below a folder, and any others that are named. Hidden folders and environments are left out."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._others: set[str] = set()
        self._seen = self._look()

    def __len__(self) -> int:
        return len(self._seen)

    def follow(self, files: Mapping[str, Stamp]) -> None:
        """Watch these as well, from the stamps that they had when they were loaded."""
        added = {path: stamp for path, stamp in files.items() if path not in self._seen}
        self._others |= added.keys()
        self._seen |= added

    def changes(self) -> list[str]:
        """The files that came, went or changed since the last call."""
        seen, self._seen = self._seen, self._look()
        return sorted(path for path in seen.keys() | self._seen.keys() if seen.get(path) != self._seen.get(path))

    def _look(self) -> dict[str, Stamp]:
        return stamps({*python_files(self._folder), *self._others})


def stamps(files: Iterable[str]) -> dict[str, Stamp]:
    """Time and size of each file that is there."""
    found = {}
    for path in files:
        with suppress(OSError):
            status = os.stat(path)
            found[path] = (status.st_mtime_ns, status.st_size)
    return found


def python_files(folder: str) -> Iterator[str]:
    """All `*.py` below a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not passed_over(entry):
                    yield from python_files(entry.path)
            elif entry.name.endswith(".py"):
                yield os.path.realpath(entry.path)


def passed_over(folder: os.DirEntry[str]) -> bool:
    """Folders whose files nobody edits."""
    made = folder.name.startswith(".") or folder.name in ("__pycache__", "node_modules", "site-packages")
    return made or os.path.exists(os.path.join(folder.path, "pyvenv.cfg"))
