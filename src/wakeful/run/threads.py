"""Threads that a process which ends does not wait for: the library's own pool would, for a handler that never ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

Call = tuple[Future[object], Callable[[], object]]


class Threads:
    """Runs calls, each in a thread that has nothing else to do; one is made when there is none."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._made = 0

    def submit(self, function: Callable[[], object]) -> Future[object]:
        """Call it soon. Only ever called from one thread."""
        future: Future[object] = Future()
        self._calls.put((future, function))
        if not self._idle.acquire(blocking=False):
            self._made += 1
            threading.Thread(target=self._run, name=f"wakeful-{self._made}", daemon=True).start()
        return future

    def close(self) -> None:
        """Let the threads end as they have done their work; does not wait for them."""
        for _ in range(self._made):
            self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            _answer(*call)
            # Nothing of the call is kept while it waits for the next.
            del call
            self._idle.release()


def _answer(future: Future[object], function: Callable[[], object]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    # A user's handler may raise anything at all: whoever waits for it decides.
    except BaseException as error:
        future.set_exception(error)
