"""A control group in which memory is scarce: whoever takes more is killed by the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# The second version of control groups has one tree, the first one for each resource.
TREES = ((Path("/sys/fs/cgroup"), "memory.max"), (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"))
MEGABYTE = 1 << 20
ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


class Cage:
    """`inside` is put before the command of whoever is to live in it, each in a cell of its own."""

    def __init__(self, folder: Path, limit: str, megabytes: int) -> None:
        self._folder = folder
        self._limit = limit
        self._megabytes = megabytes
        self._cells: list[Path] = []

    @property
    def inside(self) -> tuple[str, ...]:
        """Another cell each time it is asked for."""
        cell = self._folder / str(len(self._cells))
        cell.mkdir()
        (cell / self._limit).write_text(str(self._megabytes * MEGABYTE))
        self._cells.append(cell)
        return ("sh", "-c", ENTER, str(cell))

    @property
    def killed(self) -> int:
        """How many the kernel has killed in it for want of memory."""
        events = [path for cell in self._cells for path in (cell / "memory.events", cell / "memory.oom_control")]
        lines = [line for path in events if path.exists() for line in path.read_text().splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def clear(self) -> None:
        """Take it down; its inhabitants must be gone."""
        for place in (*self._cells, self._folder):
            with suppress(OSError):
                place.rmdir()


@contextmanager
def cage(megabytes: int) -> Iterator[Cage | None]:
    """One whose cells have so much memory. None where none can be made: it takes root."""
    made = None
    for tree, limit in TREES:
        folder = tree / f"wakeful-chaos-{os.getpid()}"
        with suppress(OSError):
            folder.mkdir()
            allow(tree, folder)
            if (folder / limit).exists():
                made = Cage(folder, limit, megabytes)
                break
            folder.rmdir()
    try:
        yield made
    finally:
        if made is not None:
            made.clear()


def allow(*folders: Path) -> None:
    """Let the cells below limit memory; the first version of control groups needs no leave."""
    for folder in folders:
        control = folder / "cgroup.subtree_control"
        if control.exists():
            control.write_text("+memory")
