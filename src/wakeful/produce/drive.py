"""The two drivers of a delivery: one blocks its thread, one awaits."""

from __future__ import annotations

import asyncio
import time
from typing import Any, TypeVar

from wakeful.database.session import Awaited, Database
from wakeful.produce.delivery import Delivery, Done, Pause, Send, SendTogether, Step

T = TypeVar("T")


def drive(delivery: Delivery[T], database: Database) -> T:
    """Do what the delivery says until it is done."""
    try:
        step = next(delivery)
        while True:
            try:
                outcome = _do(step, database)
            except Exception as error:  # What it means for each job is for the delivery to say.
                step = delivery.throw(error)
            else:
                step = delivery.send(outcome)
    except StopIteration as end:
        result: T = end.value
        return result


async def adrive(delivery: Delivery[T], database: Database, under_way: Awaited[Any] | None = None) -> T:
    """Do what the delivery says until it is done. `under_way`: its first step is."""
    try:
        first = next(delivery)
        doing = under_way.answer() if under_way else _ado(first, database)
        while True:
            try:
                outcome = await doing
            except Exception as error:  # What it means for each job is for the delivery to say.
                doing = _ado(delivery.throw(error), database)
            else:
                doing = _ado(delivery.send(outcome), database)
    except StopIteration as end:
        result: T = end.value
        return result


def _do(step: Step, database: Database) -> Done | list[Done] | bool | None:
    match step:
        case Send(statement):
            return database.run(statement)
        case SendTogether(statements):
            return database.run_together(statements)
        case Pause(seconds):
            time.sleep(seconds)
            return None


async def _ado(step: Step, database: Database) -> Done | list[Done] | bool | None:
    match step:
        case Send(statement):
            return await database.arun(statement)
        case SendTogether(statements):
            return await database.arun_together(statements)
        case Pause(seconds):
            await asyncio.sleep(seconds)
            return None
