"""Celery on Redis: forked processes, plain functions, messages acknowledged when they are taken."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.driver.drive import BlockingDriver, drive
from benchmarks.driver.load import SLEEP_SECONDS, Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.system import Python, System

SYSTEM = System(
    name="celery",
    title="Celery + Redis",
    kind="peer",
    module="benchmarks.peers.celery",
    home=Python(("celery[redis]", "hiredis")),
    settings="prefork, 4 processes, prefetch 64, results off, no gossip, mingle, heartbeat; handlers are sync",
    store="redis",
    handlers=frozenset(("noop", "sleep", "sync")),
    jobs=10_000,
    # A hundred slots would be a hundred processes.
    skips=frozenset(("memory",)),
)


class Celery(BlockingDriver):
    def __init__(self) -> None:
        super().__init__()
        from celery import Celery as Library  # type: ignore[import-not-found]

        self.app: Any = Library("bench", broker=self.dsn)
        self.app.conf.update(
            task_ignore_result=True,
            worker_prefetch_multiplier=64,
            worker_hijack_root_logger=False,
            broker_connection_retry_on_startup=True,
            broker_pool_limit=20,
        )

    def enqueue_now(self, handler: Handler, number: int) -> object:
        return self.app.send_task(handler, kwargs={"n": number})

    async def work(self, load: Load, probe: Probe) -> None:
        def noop(n: int) -> None:
            probe.start(n)

        def sleep(n: int) -> None:
            probe.start(n)
            time.sleep(SLEEP_SECONDS)

        for name, function in {"noop": noop, "sync": noop, "sleep": sleep}.items():
            self.app.task(function, name=name)
        quiet = ["--loglevel=ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
        # Blocks the loop, on which nothing else runs.
        self.app.worker_main(["worker", f"--concurrency={load.slots or 4}", *quiet])


if __name__ == "__main__":
    drive(Celery)
