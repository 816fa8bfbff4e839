"""The other side of `executor="process"`: finds the task by its module and name, runs it, answers in JSON."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import msgspec

from wakeful.payload import encode_result
from wakeful.run.failure import failed, snoozed_behind
from wakeful.run.redact import secrets_in
from wakeful.values.errors import BreakerOpen, InvalidOption, PayloadError
from wakeful.values.failing import Failing
from wakeful.values.outcome import AttemptError, Cancel, Snooze
from wakeful.values.retry import RetryPolicy
from wakeful.values.retry_json import policy_as_json, policy_in


class RemoteFailure(Exception):
    """What the handler raised in its process, as it was described there."""

    def __init__(
        self,
        error: AttemptError,
        retry_in: float | None,
        final: bool,
        policy: RetryPolicy | None = None,
        fault: bool = True,
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.retry_in = None if retry_in is None else timedelta(seconds=retry_in)
        self.final = final
        self.policy = policy
        self.fault = fault


def run_remotely(module: str, name: str, payload: str) -> bytes:
    """Run a handler in this process; the answer says how it went. Never raises."""
    task: Any = None
    try:
        task = importlib.import_module(module)
        for part in name.split("."):
            task = getattr(task, part)
        value = task.run_payload(payload)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        try:
            return msgspec.json.encode(_told(value))
        except PayloadError as error:
            # The work is done; running it again would not make its result storable.
            return msgspec.json.encode({**_described(error, task, payload), "final": True})
    except BaseException as error:
        # A user's handler may raise anything at all; it travels as a description, not as an object.
        return msgspec.json.encode(_described(error, task, payload))


def _described(error: BaseException, task: Any, payload: str) -> dict[str, object]:
    if isinstance(error, BreakerOpen):
        wait = snoozed_behind(error)
        return {"snooze": wait.delay.total_seconds(), "reason": wait.reason}
    failing: Failing = task.spec.failing if hasattr(task, "spec") else Failing()
    outcome = failed(error, failing, secrets_in(payload, failing.redact))
    return {
        "error": asdict(outcome.error),
        "retry_in": None if outcome.retry_in is None else outcome.retry_in.total_seconds(),
        "final": outcome.final,
        "policy": None if outcome.policy is None else _portable(outcome.policy),
        "fault": outcome.fault,
    }


def _portable(policy: RetryPolicy) -> str | None:
    try:
        return json.dumps({"retry": policy_as_json(policy)})
    except InvalidOption:
        return None


def answer(text: bytes) -> object:
    """The value that the handler returned there, or its failure."""
    told: dict[str, Any] = msgspec.json.decode(text)
    if "error" in told:
        policy = None if told["policy"] is None else policy_in(told["policy"])
        raise RemoteFailure(AttemptError(**told["error"]), told["retry_in"], told["final"], policy, told["fault"])
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
        case None:
            return {"value": None}
        case _:
            return {"value": msgspec.Raw((encode_result(value) or "null").encode())}
