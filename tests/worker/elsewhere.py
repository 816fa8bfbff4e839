"""Tasks that run in processes of their own, which find them here by module and name."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from wakeful.app import Wakeful
from wakeful.config import load
from wakeful.database.session import Database
from wakeful.values.outcome import Cancel, Dead, Retry, Snooze
from wakeful.values.retry import Fixed

app = Wakeful()


@asynccontextmanager
async def app_on(dsn: str) -> AsyncIterator[Wakeful]:
    """The app of this module, on the database of one test."""
    app.settings = load({"dsn": dsn}, environ={})
    app.__dict__.pop("producer", None)
    app.database = Database(dsn)
    try:
        yield app
    finally:
        await app.aclose()


def own_pid() -> int:
    """The process of the test itself."""
    return os.getpid()


@app.task(name="elsewhere.double", executor="process")
def pid_and_double(number: int) -> dict[str, int]:
    return {"pid": os.getpid(), "double": number * 2}


@app.task(name="elsewhere.told", executor="process", retry=Fixed(0))
def told(word: str) -> Any:
    match word:
        case "raise":
            raise ValueError(word)
        case "dead":
            raise Dead(word)
        case "retry":
            raise Retry(3600, word)
        case "exit":
            os._exit(7)
        case "snooze":
            return Snooze(3600)
        case "cancel":
            return Cancel(word)
    return {"a": object()}


@app.task(name="elsewhere.interrupts", executor="process")
def interrupts() -> bool:
    return signal.getsignal(signal.SIGINT) == signal.SIG_IGN


@app.task(name="elsewhere.no_number", executor="process", retry=Fixed(0))
def no_number() -> float:
    return float("nan")
