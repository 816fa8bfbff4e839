"""`python -m examples.lipas`: an outage of the mail service, from the first failure to the last mail, on one screen."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from examples.lipas.jobs import SCHEMA, app, email, site_saved
from examples.lipas.services import Services, services


async def main() -> None:
    """Save sites, let a service fail, look, repair, look again."""
    with services() as world:
        os.environ["LIPAS_SERVICES"] = world.url
        async with app, app.database.aconnection() as conn:
            await conn.execute(SCHEMA)
            worker = app.worker()
            working = asyncio.create_task(worker.arun())
            await story(conn, world)
            worker.stop()
            await working


async def story(conn: Any, world: Services) -> None:
    """What happens."""
    world.down.add("email")
    requests = [await site_saved.aenqueue(site, f"editor{site}@lipas.fi") for site in range(20)]
    await email.aenqueue("nobody", bad=True)
    await until(conn, "select state = 'open' from wakeful.breakers where name = 'email-service'")
    print(f"The mail service is down. It was called {world.calls['email']} times; the other mails wait, uncharged.")
    await show(conn, "select task, state, count, max_attempts from wakeful.queue_health order by task, state")
    world.down.clear()
    await conn.execute("select wakeful.reset_breaker('email-service')")
    print("\nIt is back, and the breaker is reset by hand. (By itself it would have been tried after a minute.)")
    await until(conn, "select count(*) = 0 from wakeful.job where state > 0 or attempt > 0")
    await show(conn, "select task, error_message, acknowledged from wakeful.dead_letters")
    print(f"\nOne request, by its correlation id {requests[0]}:")
    await show(conn, "select task, state, attempt from wakeful.jobs where correlation_id = %s order by id", requests[0])


async def until(conn: Any, query: str) -> None:
    """Wait until it says true."""
    row = None
    while row is None or not row[0]:
        await asyncio.sleep(0.1)
        row = await (await conn.execute(query)).fetchone()


async def show(conn: Any, query: str, *params: object) -> None:
    """Print the rows."""
    cursor = await conn.execute(query, params or None)
    names = [column.name for column in cursor.description]
    for row in [names, *await cursor.fetchall()]:
        print("  " + "  ".join(f"{value!s:<14}" for value in row).rstrip())


if __name__ == "__main__":
    asyncio.run(main())
