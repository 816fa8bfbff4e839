"""Threads for handlers: as many as there are calls at a time, used again, and nobody waits for them."""

from __future__ import annotations

import sys
import threading

import pytest

from wakeful.run.threads import Threads


def test_a_call_is_answered_and_an_error_too() -> None:
    threads = Threads()
    assert threads.submit(lambda: 42).result(10) == 42
    with pytest.raises(SystemExit):
        threads.submit(lambda: sys.exit(3)).result(10)
    threads.close()


def test_calls_at_the_same_time_have_threads_of_their_own_and_later_ones_use_them_again() -> None:
    threads = Threads()
    together = threading.Barrier(3)
    seen: set[str] = set()

    def meet() -> None:
        together.wait(10)
        seen.add(threading.current_thread().name)

    for _ in range(5):
        for future in [threads.submit(meet) for _ in range(3)]:
            future.result(10)
        # The answer comes a moment before its thread is free again.
        assert threads.submit(lambda: None).result(10) is None
    assert 3 <= len(seen) <= 5
    threads.close()


def test_they_are_daemons() -> None:
    threads = Threads()
    assert threads.submit(lambda: threading.current_thread().daemon).result(10) is True
    threads.close()


def test_a_call_that_hangs_holds_up_no_other() -> None:
    threads, go = Threads(), threading.Event()
    hangs = threads.submit(lambda: go.wait(10))
    assert threads.submit(lambda: 1).result(10) == 1
    assert not hangs.done()
    go.set()
    assert hangs.result(10) is True
    threads.close()
