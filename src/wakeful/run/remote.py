"""The other side of `executor="process"`: finds the task by its module and name, runs it, answers in JSON."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import msgspec

from wakeful.run.describe import describe
from wakeful.values.outcome import AttemptError, Cancel, Dead, Retry, Snooze


class RemoteFailure(Exception):
    """What the handler raised in its process, as it was described there."""

    def __init__(self, error: AttemptError, retry_in: float | None, final: bool) -> None:
        super().__init__(error.message)
        self.error = error
        self.retry_in = None if retry_in is None else timedelta(seconds=retry_in)
        self.final = final


def run_remotely(module: str, name: str, payload: str) -> bytes:
    """Run a handler in this process; the answer says how it went. Never raises."""
    try:
        task: Any = importlib.import_module(module)
        for part in name.split("."):
            task = getattr(task, part)
        value = task.run_payload(payload)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        return msgspec.json.encode(_told(value))
    except BaseException as error:
        # A user's handler may raise anything at all; it travels as a description, not as an object.
        after = error.after.total_seconds() if isinstance(error, Retry) and error.after is not None else None
        return msgspec.json.encode(
            {"error": asdict(describe(error)), "retry_in": after, "final": isinstance(error, Dead)}
        )


def answer(text: bytes) -> object:
    """The value that the handler returned there, or its failure."""
    told: dict[str, Any] = msgspec.json.decode(text)
    if "error" in told:
        raise RemoteFailure(AttemptError(**told["error"]), told["retry_in"], told["final"])
    if "snooze" in told:
        return Snooze(told["snooze"], told["reason"])
    if "cancel" in told:
        return Cancel(told["reason"])
    return told["value"]


def _told(value: object) -> dict[str, object]:
    match value:
        case Snooze():
            return {"snooze": value.delay.total_seconds(), "reason": value.reason}
        case Cancel():
            return {"cancel": True, "reason": value.reason}
        case _:
            return {"value": value}
