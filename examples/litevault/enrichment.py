"""The app and its one job: `wakeful worker examples.litevault.enrichment:app`."""

from __future__ import annotations

import asyncio
from uuid import UUID

from examples.litevault.models import ItemStatus
from wakeful import Context, Steps, Wakeful

app = Wakeful()

# At once, after 30 seconds, after five minutes; then it is dead.
POLICY = Steps([0, 30, 300])


class EnrichmentError(Exception):
    """The model could not make anything of it."""


@app.task(name="enrichment", queue="enrichment", retry=POLICY, timeout="2m", log_fields=("item_id",))
async def enrich_item(ctx: Context, item_id: UUID) -> str:
    """Summarise an item. Its state is the idempotency key: one that is not being enriched is left alone."""
    row = await _read(item_id)
    if row is None or row[0] != ItemStatus.ENRICHING:
        return "skipped"
    summary = await ask_the_model(row[1], ctx.attempt)
    # The item changes in the transaction that completes the job: both, or neither.
    async with app.database.atransaction() as conn:
        change = [ItemStatus.READY_TO_CONFIRM, summary, item_id, ItemStatus.ENRICHING]
        changed = (await conn.execute(_ENRICHED, change)).rowcount
        result = "enriched" if changed else "skipped"
        await ctx.complete(result, conn=conn)
    return result


async def ask_the_model(content: str, attempt: int) -> str:
    """Stands for a language model. Some contents try one's patience: `hang`, and `broken` as often as it says."""
    if content.startswith("hang") and attempt == 1:
        await asyncio.sleep(3600)
    if content.startswith("broken") and attempt <= int(content.partition(" ")[2]):
        raise EnrichmentError("the model gave no answer")
    return f"{content[:40]} ({len(content.split())} words)"


async def _read(item_id: UUID) -> tuple[str, str] | None:
    async with app.database.aconnection() as conn:
        row = await (await conn.execute("select status, content from item where id = %s", [item_id])).fetchone()
        return None if row is None else (row[0], row[1])


_ENRICHED = """
update item set status = %s, summary = %s, enrichments = enrichments + 1 where id = %s and status = %s
"""
