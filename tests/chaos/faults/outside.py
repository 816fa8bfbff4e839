"""Faults that need something of the machine: a small disk, another clock, a pooler."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

from tests.chaos import tools
from tests.chaos.faults.fault import Fault
from tests.chaos.pooler import no_pooler, pooled
from tests.chaos.stage import Stage
from tests.sessions import query

FULL_SECONDS = 2.0


class DiskFull(Fault):
    """The server's disk fills up, and somebody makes room."""

    name = "disk-full"
    says = "the database's disk (a small tmpfs) is full for two seconds"
    settings: ClassVar = {"max_wal_size": "48MB", "min_wal_size": "32MB"}
    pause = (1.0, 2.0)
    lease = 10.0

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._mount = stage.history.producers.parent / "disk"
        self._filling = self._mount / "filling"

    @classmethod
    def missing(cls) -> str | None:
        """Only root may mount."""
        return None if os.geteuid() == 0 else "it takes root to mount a small disk"

    @classmethod
    @contextmanager
    def place(cls, folder: Path) -> Iterator[Path]:
        """A disk of 192 MB in memory."""
        mount = folder / "disk"
        mount.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192m,mode=755", "tmpfs", str(mount)], check=True)
        try:
            yield mount
        finally:
            subprocess.run(["umount", "-l", str(mount)], check=True)

    def inject(self) -> int:
        """Fill it to the last page, and make room after two seconds."""
        try:
            with self._filling.open("wb") as file:
                while True:
                    file.write(b"\0" * 65536)
                    file.flush()
        except OSError:
            pass
        time.sleep(FULL_SECONDS)
        self._make_room()
        return 1

    def heal(self) -> None:
        """Room for all; a server that gave up for want of it is started again."""
        self._make_room()
        super().heal()

    def _make_room(self) -> None:
        self._filling.unlink(missing_ok=True)
        self.stage.server.start()


class WorkerClock(Fault):
    """Each worker believes in another time: an hour early, an hour late, the right one."""

    name = "worker-clock"
    says = "workers whose clocks are an hour ahead and an hour behind"
    takes_jobs = False
    lease = 30.0

    @classmethod
    def missing(cls) -> str | None:
        """It takes libfaketime."""
        return None if tools.find("libfaketimeMT.so.1") else "libfaketime is not to be had"

    def prepare(self) -> None:
        """Start them, each with its clock. What it measures by, the monotonic one, is left alone."""
        for offset in ("+3600", "-3600", "+0"):
            self.stage.variables.update(
                LD_PRELOAD=str(tools.find("libfaketimeMT.so.1")), FAKETIME=offset, DONT_FAKE_MONOTONIC="1"
            )
            self.stage.start_worker()
        self.stage.variables.clear()

    def inject(self) -> int:
        """Nothing more to be done: a job that is due later is what a wrong clock could get wrong."""
        with self.stage.session() as db:
            early = query(
                db, "select id from wakeful.jobs where started_at < run_at and state in ('running', 'completed')"
            )
            assert not early, f"started before they were due: {early}"
        return 1


class Pooler(Fault):
    """Workers and producers behind PgBouncer in transaction mode, whose server connections are cut."""

    name = "pgbouncer"
    says = "PgBouncer in transaction mode: LISTEN hears nothing, and its connections are ended"
    lease = 10.0
    pause = (0.05, 0.3)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._open = ExitStack()

    @classmethod
    def missing(cls) -> str | None:
        """It takes the program."""
        return no_pooler()

    def prepare(self) -> None:
        """Send everyone over one, unless they go over one already."""
        if self.stage.pooler is None:
            folder = self.stage.history.producers.parent
            self.stage.go_through(self._open.enter_context(pooled(folder, self.stage.dsn)))

    def inject(self) -> int:
        """End one of its sessions with the server."""
        with self.stage.session() as db:
            rows = query(
                db,
                "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
                " and backend_type = 'client backend'",
            )
            if rows:
                query(db, "select pg_terminate_backend(%s)", self.stage.dice.choice(rows)["pid"])
        return int(bool(rows))

    def end(self) -> None:
        """It goes with the stage."""
        self._open.close()
