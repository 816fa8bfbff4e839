"""The stage of one scenario: a database with a witness, three workers, a steady load, and dice."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.chaos.history import History
from tests.chaos.load import ClientLoad, Load, Wanted, enqueue_all
from tests.chaos.pooler import Pooler
from tests.chaos.server import Server
from tests.sessions import Session, query, scalar, session
from tests.worker.processes import Fleet, Journal, WorkerProcess, fleet_on, until
from wakeful.values.identity import new_id

WORKERS = 3
SLOTS = 5
PATIENCE = 120.0


class Stage:
    """What a fault may act on. `dsn` is the direct way to the database; workers and producers may be given others."""

    def __init__(self, dsn: str, fleet: Fleet, history: History, seed: int, server: Server | None) -> None:
        self.dsn = self.worker_dsn = self.load_dsn = dsn
        self.pooler: Pooler | None = None
        self.history = history
        self.dice = random.Random(seed)
        self.seed = seed
        self.flags: dict[str, Any] = {"concurrency": SLOTS, "poll_interval": 2}
        self.variables: dict[str, str] = {}
        # What is put before the command of the next worker.
        self.before: Callable[[], Sequence[str]] = tuple
        self.workers: list[WorkerProcess] = []
        self._fleet = fleet
        self._server = server
        self._loads: list[Load] = []

    @property
    def server(self) -> Server:
        """The server of this stage alone, which may be killed."""
        assert self._server is not None
        return self._server

    @property
    def lease(self) -> float:
        """Seconds that a worker's lease lasts."""
        return float(self.flags["lease"])

    def go_through(self, pooler: Pooler) -> None:
        """Workers and producers reach the database over it from here on."""
        self.pooler = pooler
        self.worker_dsn = self.load_dsn = pooler.dsn

    def move_to(self, dsn: str) -> None:
        """Another server has the data from here on."""
        self.dsn = dsn
        if self.pooler is not None:
            self.pooler.point_at(dsn)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A connection past all faults."""
        with session(self.dsn) as db:
            yield db

    def start_worker(self) -> WorkerProcess:
        """One more worker."""
        worker = WorkerProcess(
            self.worker_dsn,
            Journal(self.history.workers),
            "tests.chaos.apps",
            self.variables,
            self.before(),
            **self.flags,
        )
        self._fleet.workers.append(worker)
        self.workers.append(worker)
        return worker

    def fill(self) -> None:
        """As many workers as there should be: for each that died there is another."""
        self.workers = [worker for worker in self.workers if worker.process.poll() is None]
        while len(self.workers) < WORKERS:
            self.start_worker()

    def begin_load(self, rate: float) -> None:
        """Ask for jobs, for as long as faults go on: half by plain calls, half by wakeful's own client."""
        self._loads = [
            Load(self.load_dsn, self.history, self.seed, rate / 2),
            ClientLoad(self.load_dsn, self.history, self.seed + 1, rate / 2),
        ]
        for load in self._loads:
            load.start()

    def end_load(self) -> None:
        """Ask for no more."""
        for load in self._loads:
            load.end()

    def flood(self, count: int, task: str = "quick") -> None:
        """Ask for so many jobs at once."""
        with self.session() as db:
            enqueue_all(db, self.history, [Wanted(new_id(), task, {}) for _ in range(count)])

    def probe(self, task: str = "quick", **payload: object) -> Wanted:
        """Ask for one job, whatever else goes on."""
        wanted = Wanted(new_id(), task, payload)
        with self.session() as db:
            enqueue_all(db, self.history, [wanted])
        return wanted

    def drain(self) -> bool:
        """Whether all that was asked for comes to an end while workers live."""
        with self.session() as db:
            return self._wait(lambda: self._left(db) == 0)

    def leave(self) -> None:
        """Let the workers go as they should; one that died is none of them.

        Once the schedule rests, and nothing is left: a job that comes to a worker as it leaves is given back, which
        would look like a loss.
        """
        with self.session() as db:
            query(db, "select wakeful.pause_schedule(s.name) from wakeful.schedule s")
            self._wait(lambda: scalar(db, "select count(*) from wakeful.job") == 0)
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.signal(signal.SIGTERM)
        for worker in self.workers:
            worker.ends(60)

    def logs(self) -> str:
        """All that all workers said."""
        return "".join(worker.log for worker in self._fleet.workers)

    def _left(self, db: Session) -> int:
        # A schedule never ends: on a slow machine one of its jobs is always there.
        return int(scalar(db, "select count(*) from wakeful.job where metadata ->> 'schedule' is null"))

    def _wait(self, condition: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            # A worker may die of a job, at any time.
            self.fill()
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


@contextmanager
def stage_on(dsn: str, folder: Path, seed: int, server: Server | None = None) -> Iterator[Stage]:
    """A stage without workers yet; nothing of it is left at the end."""
    history = History(folder)
    with fleet_on(dsn, Journal(history.workers)) as fleet:
        yield Stage(dsn, fleet, history, seed, server)


def started(stage: Stage) -> None:
    """Return once all workers are registered."""
    stage.fill()
    for worker in stage.workers:
        until(lambda worker=worker: "worker_started" in worker.log or worker.process.poll() is not None, PATIENCE)  # type: ignore[misc]
