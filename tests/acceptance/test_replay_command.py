"""`wakeful replay` as a process: the handler runs here, and nothing of the queue changes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from tests.acceptance.processes import COMMAND, assert_sentence, environment, run
from tests.sessions import Session, query, session
from tests.verbs import complete, enqueue, fail, started
from wakeful.testing import Database

APP = """
import logging
import wakeful

app = wakeful.Wakeful()

@app.task(name="add")
async def add(ctx: wakeful.Context, a: int, b: int) -> int:
    ctx.count("added", 2)
    ctx.progress(50)
    await ctx.save({"here": 1})
    async with ctx.transaction() as conn:
        await conn.execute("create table public.effect (n int)")
    await ctx.enqueue("add", {"a": 1, "b": 1})
    await add.aenqueue(1, 2)
    return a + b

@app.task(name="broken")
def broken(ctx: wakeful.SyncContext, word: str) -> None:
    logging.info("inside")
    raise ValueError(f"no {word}")

@app.task(name="together", batch=5)
async def together(items: list[dict[str, int]]) -> list[int]:
    return [one["n"] * 2 for one in items]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def tables(db: Session) -> list[dict[str, object]]:
    return query(db, "select id, state, attempt, epoch, updated_at, progress, counters from wakeful.jobs")


def test_a_finished_job_runs_again_here_and_changes_nothing(database: Database, folder: Path) -> None:
    with session(database.dsn) as db:
        held = started(db, "add", payload={"a": 2, "b": 3})
        complete(db, held)
        before = tables(db)
        ran = run("replay", str(held.id), "shop:app", "--json", folder=folder, dsn=database.dsn)
        assert ran.returncode == 0, ran.stderr
        told = json.loads(ran.stdout)
        assert (told["outcome"], told["result"], told["counters"]) == ("completed", 5, {"added": 2})
        assert told["would_enqueue"] == ["add", "add"]
        assert tables(db) == before
        assert query(db, "select to_regclass('public.effect') as made") == [{"made": None}]


def test_a_dead_job_shows_where_its_handler_raises(database: Database, folder: Path) -> None:
    with session(database.dsn) as db:
        held = started(db, "broken", payload={"word": "luck"})
        fail(db, held, no_retry=True)
    ran = run("replay", str(held.id), "shop:app", folder=folder, dsn=database.dsn)
    assert ran.returncode == 1
    assert "ValueError: no luck" in ran.stderr
    assert "shop.py" in ran.stderr
    assert "outcome" in ran.stdout
    assert (
        json.loads(run("replay", str(held.id), "shop:app", "--json", folder=folder, dsn=database.dsn).stdout)["error"]
        == "ValueError: no luck"
    )


def test_a_batch_handler_gets_its_one_job_in_a_list(database: Database, folder: Path) -> None:
    with session(database.dsn) as db:
        held = started(db, "together", payload={"n": 4})
        complete(db, held)
    ran = run("replay", str(held.id), "shop:app", "--json", folder=folder, dsn=database.dsn)
    assert json.loads(ran.stdout)["result"] == 8, ran.stderr


def test_pdb_looks_around_where_it_was_raised(database: Database, folder: Path) -> None:
    with session(database.dsn) as db:
        held = started(db, "broken", payload={"word": "luck"})
        fail(db, held, no_retry=True)
    ran = subprocess.run(
        [*COMMAND, "replay", str(held.id), "shop:app", "--pdb"],
        cwd=folder,
        env=environment(database.dsn, {}),
        input="p word\nq\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    assert "(Pdb) 'luck'" in ran.stdout


def test_what_cannot_be_replayed_is_told_in_a_sentence(database: Database, folder: Path) -> None:
    with session(database.dsn) as db:
        waiting = enqueue(db, "add", {"a": 1, "b": 1})
        foreign = started(db, "elsewhere")
        complete(db, foreign)
    for code, part, *arguments in (
        (1, "is ready, so its handler runs by itself", str(waiting), "shop:app"),
        (1, "There is no job", str(uuid4()), "shop:app"),
        (2, "No task is named 'elsewhere'", str(foreign.id), "shop:app"),
        (2, "Which app?", str(foreign.id)),
    ):
        assert_sentence(run("replay", *map(str, arguments), folder=folder, dsn=database.dsn), int(code), str(part))
