"""Every snippet of README.md and docs/ runs, against a real database."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.play import Play
from tests.docs.snippets import ROOT, Snippet, pages, snippets
from tests.docs.stage import AFTER, BEFORE, EMBEDDED, MODULES, as_url
from wakeful.edges.testing import Database, Databases
from wakeful.worker import Worker
from wakeful.worker.summary import Summary


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


ALL = {name_of(page): list(snippets(page)) for page in pages()}
CANNOT_RUN = [one for found in ALL.values() for one in found if "skip" in one.remarks]


@pytest.mark.parametrize("page", [name for name, found in ALL.items() if found])
def test_every_snippet_of_a_page_runs(page: str, play: Play) -> None:
    for snippet in [*BEFORE.get(page, []), *ALL[page], *AFTER.get(page, [])]:
        play.step(snippet)


@pytest.mark.parametrize("snippet", CANNOT_RUN, ids=lambda one: one.place)
def test_a_snippet_that_cannot_run_says_why(snippet: Snippet) -> None:
    assert snippet.remarks["skip"]
    pytest.skip(f"{snippet.place}: {snippet.remarks['skip']}")


@pytest.fixture
def play(page: str, databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    """A folder, a database and a module of the page's own."""
    module = ModuleType(MODULES.get(page, "shop"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    if page in EMBEDDED:
        with Play(tmp_path, None, module) as playing:
            yield playing
        return
    with databases.migrated() as database:
        monkeypatch.setenv("WAKEFUL_DSN", as_url(database))
        monkeypatch.setattr(Worker, "run", until_idle(database))
        with Play(tmp_path, database, module) as playing:
            yield playing


def until_idle(database: Database) -> object:
    """In place of a worker that runs for ever: one that is stopped once nothing is ready or running."""

    async def work(worker: Worker) -> Summary:
        started = asyncio.Event()
        running = asyncio.create_task(worker.arun(started=started.set))
        await started.wait()
        async with await database.aconnect() as conn:
            while await (await conn.execute("select from wakeful.job where state > 0 limit 1")).fetchone():
                await asyncio.sleep(0.05)
        worker.stop()
        return await running

    return lambda worker: asyncio.run(work(worker))
