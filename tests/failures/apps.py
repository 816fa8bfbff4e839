"""The app of the trials' worker processes: jobs that write down what they do, and a service that may be down.

Run as a program it works until it is told to stop: `python -m tests.failures.apps '{"lease": 2}'`.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.worker.apps import main, tell
from wakeful.app import Wakeful
from wakeful.run.context import Context
from wakeful.values.retry import Exponential, Fixed

THRESHOLD, LIMIT, RATE, BURST = 5, 3, 100, 10
# A tenth of the outage; waits and open times are in proportion, so that a short one shows the same.
OUTAGE_SECONDS = float(os.environ.get("OUTAGE_SECONDS", "20"))
SOON = Fixed(0.05)

app = Wakeful()
app.breaker("service", threshold=THRESHOLD, open_for=OUTAGE_SECONDS / 10)
app.configure_queue("shared", fair=True)


@app.task(name="limited", concurrency=LIMIT, limit_key="account.id", retry=SOON, max_attempts=1000)
async def limited(ctx: Context, account: dict[str, str], seconds: float) -> None:
    """Take some time, as one of three of its account."""
    tell("start", ctx, key=account["id"])
    await asyncio.sleep(seconds)
    tell("end", ctx, key=account["id"])


@app.task(name="rated", rate=f"{RATE} per second", burst=BURST, retry=SOON, max_attempts=1000)
async def rated(ctx: Context) -> None:
    """Tell when it was let through, by the database's clock."""
    tell("start", ctx, let_through=ctx.job.started_at.timestamp())


@app.task(
    name="call",
    breaker=None if os.environ.get("BREAKER") == "off" else "service",
    retry=Exponential(base=OUTAGE_SECONDS / 20, cap=OUTAGE_SECONDS),
)
async def call(ctx: Context, sign: str) -> None:
    """Call a service that is down for as long as the sign hangs out."""
    down = Path(sign).exists()
    tell("call", ctx, down=down)
    await asyncio.sleep(0.002)
    if down:
        raise ConnectionError("it is down")


@app.task(name="share", queue="shared")
async def share() -> None:
    """Take a turn. Long enough that what is done in the time of a commit does not count for much."""
    await asyncio.sleep(0.01)


if __name__ == "__main__":
    main(app)
