"""Driving a coroutine by hand: several short ones can share one task, and each still has a context of its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


@coroutine
def drive(driven: Coroutine[Any, Any, T], context: Context, suspends: Callable[[], None]) -> Generator[object, None, T]:
    """Run it to its end, in `context`. `suspends` is called once if it waits for anything, before it does.

    To the event loop the current task is the one that drives: what the coroutine awaits wakes that task, and a
    cancellation of that task reaches the coroutine.
    """
    step = context.run
    try:
        awaited = step(driven.send, None)
        suspends()
        while True:
            try:
                yield awaited
            # Whatever is thrown in is the coroutine's to deal with.
            except BaseException as error:
                awaited = step(driven.throw, error)
            else:
                awaited = step(driven.send, None)
    except StopIteration as ended:
        result: T = ended.value
        return result
