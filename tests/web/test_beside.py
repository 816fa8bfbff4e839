"""A worker beside a web server: it comes and goes with it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from tests.sessions import query, scalar, session, until
from tests.worker.work import comes_to
from wakeful import SchemaMismatch, Wakeful
from wakeful.testing import Database, sandboxed
from wakeful.web import lifespan, working


@pytest.fixture
def app(database: Database) -> Iterator[Wakeful]:
    made = Wakeful("postgresql://nobody@localhost:1/none")

    @made.task(name="t")
    async def t() -> None: ...

    with sandboxed(made, database):
        yield made


async def test_a_worker_runs_as_long_as_the_server(app: Wakeful, database: Database) -> None:
    web = FastAPI(lifespan=lifespan(app, concurrency=2))

    @web.post("/orders")
    async def order() -> str:
        return str(await app.tasks["t"].aenqueue())

    with session(database.dsn) as db:
        async with web.router.lifespan_context(web):
            [worker] = query(db, "select slots from wakeful.workers")
            assert worker["slots"] == 2
            async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://web") as client:
                id = (await client.post("/orders")).json()
            await comes_to(db, id, "completed")
        assert query(db, "select from wakeful.workers") == []


async def test_what_keeps_it_from_starting_keeps_the_server_from_it(blank_database: Database) -> None:
    app = Wakeful(blank_database.dsn)
    app.task(name="t")(lambda: None)
    with pytest.raises(SchemaMismatch):
        async with working(app):
            raise AssertionError("it has started")


async def test_a_lifespan_of_ones_own_has_it_inside(app: Wakeful, database: Database) -> None:
    with session(database.dsn) as db:
        async with working(app, concurrency=3) as worker:
            assert worker is not None
            assert len(query(db, "select from wakeful.workers where slots = 3")) == 1
        assert query(db, "select from wakeful.workers") == []


SERVER = """
import asyncio
from pathlib import Path
from fastapi import FastAPI
from wakeful import Wakeful
from wakeful.web import lifespan

jobs = Wakeful()

@jobs.task(name="slow")
async def slow() -> str:
    while not Path("go").exists():
        await asyncio.sleep(0.02)
    return "done"

web = FastAPI(lifespan=lifespan(jobs))

@web.post("/slow")
async def enqueue() -> str:
    return str(await slow.aenqueue())
"""


def test_on_sigterm_the_server_lets_its_jobs_finish(database: Database, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    door = tmp_path / "web.sock"
    command = [sys.executable, "-m", "uvicorn", "server:web", "--uds", str(door), "--log-level", "warning"]
    environment = {**os.environ, "WAKEFUL_DSN": database.dsn}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment)
    try:
        until(lambda: door.exists() or process.poll() is not None, 60)
        assert process.poll() is None
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(door)), base_url="http://web") as client:
            id = client.post("/slow").json()
        with session(database.dsn) as db:
            until(lambda: scalar(db, "select state from wakeful.jobs where id = %s", id) == "running", 60)
            process.send_signal(signal.SIGTERM)
            # It lets nobody in from the moment it stops.
            until(lambda: not lets_in(door), 60)
            (tmp_path / "go").touch()
            process.wait(60)
            [job] = query(db, "select state, result from wakeful.jobs where id = %s", id)
            assert job == {"state": "completed", "result": "done"}
            assert query(db, "select from wakeful.workers") == []
    finally:
        process.kill()
        process.wait()


def lets_in(door: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as visitor:
        return visitor.connect_ex(str(door)) == 0
