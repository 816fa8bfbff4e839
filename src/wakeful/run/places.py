"""Where handlers run: on the loop, in a thread, in a process."""

from __future__ import annotations

import asyncio
import contextvars
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from typing import Any

from wakeful.run.attempt import Attempt
from wakeful.run.failure import Escaped
from wakeful.run.remote import answer, run_remotely
from wakeful.run.threads import Threads
from wakeful.values.errors import WakefulError


class ProcessDied(WakefulError):
    """The process that ran a handler has died."""

    code = "process_died"


class Places:
    """Calls handlers. Threads and processes are made when they are first needed, one for each call at a time."""

    def __init__(
        self,
        loop_context: Callable[[Attempt], object],
        thread_context: Callable[[Attempt], object],
    ) -> None:
        self._loop_context = loop_context
        self._thread_context = thread_context
        self._threads = Threads()
        self._idle_processes: list[ProcessPoolExecutor] = []
        self._busy_processes: set[ProcessPoolExecutor] = set()

    async def call(self, running: Attempt) -> object:
        """Decode the payload and call the handler where it belongs."""
        handler = running.handler
        if handler.place == "process":
            return await self._in_process(running)
        arguments = handler.codec.decode(running.job.payload)
        name = handler.codec.context
        if handler.place == "loop":
            if name is not None:
                arguments[name] = self._loop_context(running)
            return await handler.function(**arguments)
        if name is not None:
            arguments[name] = self._thread_context(running)
        return await self._in_thread(running, partial(handler.function, **arguments))

    async def call_batch(self, batch: Sequence[Attempt], items: list[object]) -> object:
        """Call a handler with the list of all its jobs' arguments."""
        handler = batch[0].handler
        arguments = {handler.list_parameter: items}
        if handler.place == "loop":
            return await handler.function(**arguments)
        return await self._in_thread(batch[0], partial(handler.function, **arguments))

    async def _in_thread(self, running: Attempt, function: Callable[[], object]) -> object:
        inside = contextvars.copy_context()
        future = asyncio.wrap_future(self._threads.submit(partial(inside.run, _presentable, function)))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            # A thread cannot be stopped: it is told, and its slot stays taken until it has ended.
            if not future.done():
                running.leftover = future
            raise

    async def _in_process(self, running: Attempt) -> object:
        job = running.job
        call = (run_remotely, *address(running.handler.function), job.payload)
        pool, answered = self._submitted(call)
        self._busy_processes.add(pool)
        try:
            text = await asyncio.wrap_future(answered)
        except BrokenProcessPool:
            raise ProcessDied(f"The process that ran job {job.id} has died: see its own output for why.") from None
        except asyncio.CancelledError:
            _kill(pool)
            raise
        else:
            self._idle_processes.append(pool)
        finally:
            self._busy_processes.discard(pool)
        return answer(text)

    def _submitted(self, call: tuple[Any, ...]) -> tuple[ProcessPoolExecutor, Future[bytes]]:
        """One that was killed while it was idle has run nothing: another takes its place."""
        while self._idle_processes:
            pool = self._idle_processes.pop()
            with suppress(BrokenProcessPool):
                return pool, pool.submit(*call)
        pool = _one_process()
        return pool, pool.submit(*call)

    def close(self) -> None:
        """Let go of threads and processes; those still at work are left to end."""
        self._threads.close()
        for pool in self._idle_processes:
            pool.shutdown(wait=False)
        for pool in self._busy_processes:
            _kill(pool)


def address(function: Callable[..., object]) -> tuple[str, str]:
    """Where another process finds a function: its module, and its name there."""
    return function.__module__, function.__qualname__


def _presentable(function: Callable[[], object]) -> object:
    """Calls it. A future takes no StopIteration, and for a coroutine GeneratorExit means that it is closed."""
    try:
        return function()
    except (StopIteration, GeneratorExit) as error:
        raise Escaped(error) from None


def _one_process() -> ProcessPoolExecutor:
    # Spawned, not forked: this process has threads and connections that a copy of it could not use.
    # Ctrl-C reaches all processes of a terminal: the worker alone decides what it means.
    return ProcessPoolExecutor(1, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN))


def _kill(pool: ProcessPoolExecutor) -> None:
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(wait=False, cancel_futures=True)
