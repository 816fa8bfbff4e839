"""taskiq on a Redis list: async handlers, one process."""

from __future__ import annotations

import os
import sys
from typing import Any

from benchmarks.driver.drive import Driver, drive, handlers
from benchmarks.driver.load import Handler, Load
from benchmarks.driver.probe import Probe
from benchmarks.system import Python, System

SYSTEM = System(
    name="taskiq",
    title="taskiq + Redis",
    kind="peer",
    module="benchmarks.peers.taskiq",
    home=Python(("taskiq", "taskiq-redis", "hiredis", "orjson", "uvloop")),
    settings="list broker (a message is gone when it is taken), 100 tasks at once, prefetch 100, orjson, uvloop",
    store="redis",
    jobs=20_000,
)


def make_broker(probe: Probe | None = None) -> Any:
    """Also called by its command line, which wants a broker by name."""
    from taskiq.serializers import ORJSONSerializer  # type: ignore[import-not-found]
    from taskiq_redis import ListQueueBroker  # type: ignore[import-not-found]

    broker = ListQueueBroker(os.environ["BENCH_DSN"], max_connection_pool_size=50)
    broker = broker.with_serializer(ORJSONSerializer())
    functions = handlers(probe or Probe())
    for name in ("noop", "sleep"):
        broker.register_task(functions[name], task_name=name)
    return broker


class Taskiq(Driver):
    async def open(self) -> None:
        self.broker = make_broker()
        await self.broker.startup()

    async def close(self) -> None:
        await self.broker.shutdown()

    async def enqueue(self, handler: Handler, number: int) -> object:
        return await self.broker.find_task(handler).kiq(number)

    async def work(self, load: Load, probe: Probe) -> None:
        slots = str(load.slots or 100)
        limits = ["--max-async-tasks", slots, "--max-prefetch", slots, "--log-level", "ERROR"]
        program = os.path.join(os.path.dirname(sys.executable), "taskiq")
        os.execv(program, ["taskiq", "worker", "benchmarks.peers.taskiq:make_broker", "--workers", "1", *limits])


if __name__ == "__main__":
    import uvloop

    drive(Taskiq, uvloop.run)
