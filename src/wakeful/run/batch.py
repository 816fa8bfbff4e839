"""A batch: several jobs of one task in one call of its handler, each with an outcome of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from wakeful.run.attempt import Attempt, is_closed, read_cancellation, read_error, read_value
from wakeful.run.handler import Handler
from wakeful.values.outcome import Outcome

Call = Callable[[Sequence[Attempt], list[Any]], Awaitable[object]]


async def attempt_batch(batch: Sequence[Attempt], call: Call) -> list[Outcome]:
    """Run the handler with the list of arguments. Never raises, unless it is closed itself.

    A payload that does not fit fails alone, before the call. The handler returns nothing (all are done), or a list with
    an entry for each job: its result, a Snooze, a Cancel, or the exception that it failed with. If it raises, all fail.
    """
    outcomes: dict[int, Outcome] = {}
    fitting: list[tuple[int, Any]] = []
    for index, running in enumerate(batch):
        try:
            fitting.append((index, read_item(running.handler, running.job.payload)))
        # A payload that was not written by us may be anything: it fails alone.
        except Exception as error:
            outcomes[index] = read_error(error, running)
    if fitting:
        members = [batch[index] for index, _ in fitting]
        heard = await _heard(members, [item for _, item in fitting], call)
        outcomes.update((index, outcome) for (index, _), outcome in zip(fitting, heard, strict=True))
    return [outcomes[index] for index in range(len(batch))]


async def _heard(members: Sequence[Attempt], items: list[Any], call: Call) -> list[Outcome]:
    try:
        value = await call(members, items)
    except asyncio.CancelledError as error:
        return [read_cancellation(member, error) for member in members]
    # A user's handler may raise anything at all, and each of it is an outcome.
    except BaseException as error:
        if is_closed(error, members[0]):
            raise
        return [read_error(error, member) for member in members]
    if value is None:
        return [read_value(None) for _ in members]
    if not isinstance(value, list | tuple) or len(value) != len(members):
        problem = f"a batch handler returns None or a list of {len(members)} entries, not {type(value).__name__}"
        return [read_error(TypeError(problem), member) for member in members]
    return [
        read_error(entry, member) if isinstance(entry, BaseException) else read_value(entry)
        for member, entry in zip(members, value, strict=True)
    ]


def read_item(handler: Handler, payload: str) -> Any:
    """One job's arguments, typed as the elements of the handler's list are."""
    name = handler.list_parameter
    decoded = handler.codec.decode(f"{{{json.dumps(name)}:[{payload}]}}")
    return decoded[name][0]
