"""`python -m examples.litevault`: the API on port 8000 and a worker, on the embedded server."""

from __future__ import annotations

import asyncio

import uvicorn

from examples.litevault.api import api
from examples.litevault.enrichment import app


async def main() -> None:
    """Serve and work until interrupted."""
    server = uvicorn.Server(uvicorn.Config(api, port=8000))
    worker = app.worker(queues="enrichment")
    async with app:
        working = asyncio.create_task(worker.arun())
        await server.serve()
        worker.stop()
        await working


if __name__ == "__main__":
    asyncio.run(main())
