"""Two lanes of jobs that call services which may fail: `wakeful worker examples.lipas.jobs:app`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import httpx

from wakeful import Context, Dead, Wakeful
from wakeful.config import load

HERE: Final = Path(__file__).parent
TOO_OLD_SECONDS: Final = 600
SCHEMA: Final = """
create table if not exists alert (
    id bigint generated always as identity primary key, at timestamptz not null default now(), what text not null
)
"""

app = Wakeful(settings=load(directory=HERE))


def is_the_services_fault(error: BaseException) -> bool:
    """Whether a breaker should hear of it: what does not answer, or answers that it is broken."""
    return isinstance(error, httpx.TransportError) or (
        isinstance(error, httpx.HTTPStatusError) and error.response.status_code >= 500
    )


@app.task(name="email", queue="fast", breaker="email-service", breaker_on=is_the_services_fault, timeout="30s")
async def email(ctx: Context, to: str, bad: bool = False) -> None:
    """Send a mail."""
    await call(ctx, "email", {"to": to, "bad": bad})


@app.task(name="integration", queue="general", breaker="integration-api", breaker_on=is_the_services_fault)
async def integration(ctx: Context, site: int) -> None:
    """Tell another system of a site."""
    await call(ctx, "integration", {"site": site})


@app.task(name="webhook", queue="general", breaker="webhook", breaker_on=is_the_services_fault, max_attempts=3)
async def webhook(ctx: Context, site: int) -> None:
    """Tell whoever has subscribed."""
    await call(ctx, "webhook", {"site": site})


@app.task(name="site-saved", queue="fast")
async def site_saved(ctx: Context, site: int, editor: str) -> None:
    """What follows a change. The children carry this job's correlation id, so one request can be traced over all."""
    await ctx.enqueue("email", {"to": editor})
    await ctx.enqueue("integration", {"site": site})
    await ctx.enqueue("webhook", {"site": site})


@app.schedule(every=300)
@app.task(name="monitor-queue-health", queue="fast")
async def monitor_queue_health(ctx: Context) -> list[str]:
    """Look at the queue, and note what a person should see."""
    async with ctx.transaction() as conn:
        found = [what for query in ALERTS for (what,) in await (await conn.execute(query)).fetchall()]
        for what in found:
            await conn.execute("insert into alert (what) values (%s)", [what])
            ctx.logger.warning("%s", what)
    return found


async def call(ctx: Context, service: str, body: dict[str, Any]) -> None:
    """Post to a service; the key makes a repeat harmless. What it refuses for good is not tried again."""
    async with httpx.AsyncClient(base_url=os.environ["LIPAS_SERVICES"], timeout=10) as client:
        answer = await client.post(service, json=body, headers={"idempotency-key": ctx.idempotency_key})
    if 400 <= answer.status_code < 500:
        raise Dead(f"{service} refuses it ({answer.status_code})")
    answer.raise_for_status()


ALERTS: Final = (
    f"select task || ': ' || count || ' jobs wait, the oldest for ' || round(avg_age_seconds) || ' s on average'"
    f" from wakeful.queue_health where state = 'ready' and oldest < now() - interval '{TOO_OLD_SECONDS} seconds'",
    "select count(*) || ' dead letters of ' || task || ' that nobody has seen' from wakeful.dead_letters"
    " where not acknowledged group by task",
    "select 'the breaker of ' || name || ' is ' || state from wakeful.breakers where state <> 'closed'",
)
