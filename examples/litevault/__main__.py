"""`python -m examples.litevault`: the API on port 8000 and a worker, on the embedded server."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from examples.litevault.api import api, lifespan
from examples.litevault.enrichment import app
from wakeful.web import working


@asynccontextmanager
async def live(_: object) -> AsyncIterator[None]:
    """The API's tables and sessions, and a worker that has finished its jobs when the server is gone."""
    async with lifespan(api), working(app, queues="enrichment"):
        yield


def main() -> None:
    """Serve and work until interrupted."""
    parser = argparse.ArgumentParser(description="Serve the items API, and enrich what it is given.")
    parser.add_argument("--port", type=int, default=8000)
    uvicorn.run(Starlette(routes=[Mount("/", api)], lifespan=live), port=parser.parse_args().port)


if __name__ == "__main__":
    main()
