"""The shop whose jobs the demo runs. Each job leaves one effect, written in the transaction that completes it."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from wakeful import Context, Fixed, Steps, SyncContext, Wakeful

app = Wakeful()

# Orders have slots of their own, so that nothing slow ever stands before them.
ORDERS: Final = "orders"
LANES: Final = f"{ORDERS}:4,default"

TABLES: Final = """
create schema shop;
create table shop.orders (id integer primary key, placed_at timestamptz not null default clock_timestamp());
create table shop.effect (job_id uuid not null, task text not null);
create table shop.endpoint (works boolean not null);
insert into shop.endpoint values (false);
create table shop.payments (works boolean not null);
insert into shop.payments values (true);
"""

# Half a second at a time: long enough to be seen, short enough to be watched.
PAYMENTS: Final = app.breaker("payments", threshold=3, open_for=0.5, cap=0.5)

_EFFECT: Final = "insert into shop.effect (job_id, task) values (%s, %s)"


async def leave_effect(ctx: Context) -> None:
    """What the job is for; it and the job's completion commit together, or neither does."""
    async with ctx.transaction() as conn:
        await conn.execute(_EFFECT, [ctx.job.id, ctx.job.task])


@app.task(name="shop.confirm_order", queue=ORDERS)
async def confirm_order(ctx: Context, order: int) -> None:
    """Quick, and waited for by a customer."""
    await leave_effect(ctx)


@app.task(name="shop.send_mail", retry=Fixed(0.5, jitter=0.5))
async def send_mail(ctx: Context, order: int) -> None:
    """A mail server that turns one mail in eight away, the first time."""
    await asyncio.sleep(0.01)
    if order % 8 == 0 and ctx.attempt == 1:
        raise ConnectionError("421 try again later")
    await leave_effect(ctx)


@app.task(name="shop.resize_picture")
def resize_picture(ctx: SyncContext, picture: int) -> None:
    """Work in a thread."""
    time.sleep(0.002)
    with ctx.transaction() as conn:
        conn.execute(_EFFECT, [ctx.job.id, ctx.job.task])


@app.task(name="shop.pack_parcel")
async def pack_parcel(ctx: Context, order: int) -> None:
    """Slow enough to be caught in the middle."""
    await asyncio.sleep(1.5)
    await leave_effect(ctx)


@app.task(name="shop.deliver_webhook", retry=Steps([0, 0.4, 0.4]))
async def deliver_webhook(ctx: Context, order: int) -> None:
    """Fails for good while the endpoint is broken."""
    async with ctx.transaction() as conn:
        cursor = await conn.execute("select works from shop.endpoint")
        if (await cursor.fetchone()) != (True,):
            raise ConnectionError("500 from https://partner.example/hook")
        await conn.execute(_EFFECT, [ctx.job.id, ctx.job.task])


@app.task(name="shop.charge_card", retry=Fixed(0.3), max_attempts=50, breaker=PAYMENTS.name)
async def charge_card(ctx: Context, order: int) -> None:
    """By a payment service that goes down; while it is, its breaker lets only a probe through now and then."""
    async with ctx.transaction() as conn:
        cursor = await conn.execute("select works from shop.payments")
        if (await cursor.fetchone()) != (True,):
            raise ConnectionError("503 from https://pay.example")
        await conn.execute(_EFFECT, [ctx.job.id, ctx.job.task])


@app.task(name="shop.count_stock", queue=ORDERS)
async def count_stock(ctx: Context) -> None:
    """By the clock, once a second."""
    await leave_effect(ctx)


@app.task(name="shop.send_reminder", queue=ORDERS)
async def send_reminder(ctx: Context, order: int) -> None:
    """For a moment in the future."""
    await leave_effect(ctx)
