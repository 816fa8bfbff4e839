"""The customers: they order one by one, all the time, and some change their minds."""

from __future__ import annotations

import random
from itertools import count

from wakeful.edges.demo.scene import Line
from wakeful.edges.demo.shop import confirm_order, send_mail
from wakeful.edges.demo.show import Curtain, Show

ORDERS_A_SECOND = 40.0
ONE_IN_CHANGES_ITS_MIND = 15


class ChangedMind(Exception):
    """The customer leaves before paying: the transaction is rolled back, order and job with it."""


async def crowd(show: Show, line: Line) -> None:
    """Orders, each in one transaction with its job, until the curtain."""
    line.begins("Orders come in, each in one transaction with its job")
    placed = left = 0
    try:
        for number in count(1):
            if number % ONE_IN_CHANGES_ITS_MIND == 0:
                await order(show, number, pays=False)
                left += 1
            else:
                await order(show, number, pays=True)
                show.count(await send_mail.aenqueue(order=number))
                placed += 1
            line.text = f"Order and job commit together: {placed:,} and {placed:,}; {left} rolled back, nothing left"
            await show.pause(random.expovariate(ORDERS_A_SECOND))
    except Curtain:
        line.ends(line.text)


async def order(show: Show, number: int, *, pays: bool) -> None:
    """Place an order and enqueue its confirmation: both are there, or neither."""
    try:
        async with show.app.database.atransaction() as conn:
            await conn.execute("insert into shop.orders (id) values (%s)", [number])
            made = await confirm_order.using(conn).aenqueue(order=number)
            if not pays:
                raise ChangedMind
        show.count(made)
    except ChangedMind:
        pass
