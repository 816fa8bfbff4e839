"""Verbs as scripts: what to do step by step, apart from how one waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from wakeful.database.session import Database
from wakeful.statements.statement import Statement
from wakeful.values.errors import WakefulError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Take:
    """Run a statement whose answer must not be lost: what is left by a caller who has gone is given back."""

    statement: Statement[Any]
    give_back: Callable[[Any], Statement[Any] | None]


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait until the bell rings, for `seconds` at most (None: as long as it takes)."""

    bell: Future[None] | None
    seconds: float | None


Step: TypeAlias = Statement[Any] | Take | Sleep
Script: TypeAlias = Generator[Step, Any, T]


class Runs(Protocol):
    """What runs a statement and commits it."""

    def run(self, statement: Statement[T]) -> T: ...


def play(database: Runs, script: Script[T]) -> T:
    """Do what the script says, blocking; what a step raises is raised in the script."""
    try:
        step = next(script)
        while True:
            try:
                answer = _do(database, step)
            except Exception as error:  # What it means is for the script to say.
                step = script.throw(error)
            else:
                step = script.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        script.close()


async def aplay(database: Database, script: Script[T]) -> T:
    """Do what the script says, awaiting; what a step raises is raised in the script."""
    try:
        step = next(script)
        while True:
            try:
                answer = await _ado(database, step)
            except Exception as error:  # What it means is for the script to say.
                step = script.throw(error)
            else:
                step = script.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        script.close()


def _do(database: Runs, step: Step) -> object:
    match step:
        case Statement():
            return database.run(step)
        case Take(statement):
            return database.run(statement)
        case Sleep(None, seconds):
            time.sleep(seconds or 0)
        case Sleep(bell, seconds) if bell is not None:
            wait([bell], seconds)
    return None


async def _ado(database: Database, step: Step) -> object:
    match step:
        case Statement():
            return await database.arun(step)
        case Take():
            return await _take(database, step)
        case Sleep(None, seconds):
            await asyncio.sleep(seconds or 0)
        case Sleep(bell, seconds) if bell is not None:
            heard = asyncio.wrap_future(bell)
            try:
                await asyncio.wait([heard], timeout=seconds)
            finally:
                heard.cancel()
    return None


_leftovers: set[asyncio.Task[None]] = set()


async def _take(database: Database, step: Take) -> object:
    taking = asyncio.ensure_future(database.arun(step.statement))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        # The statement may take jobs all the same, and nobody is left to work on them.
        leftover = asyncio.create_task(_give_back(database, taking, step))
        _leftovers.add(leftover)
        leftover.add_done_callback(_leftovers.discard)
        raise


async def _give_back(database: Database, taking: asyncio.Future[Any], step: Take) -> None:
    # What cannot be given back comes back when its lease lapses.
    with suppress(WakefulError):
        if (undo := step.give_back(await taking)) is not None:
            await database.arun(undo)
