"""`wakeful top` on a screen of its own, driven by keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from textual.widgets import DataTable, Footer, Static, TabbedContent

from tests.sessions import Session, query
from tests.verbs import complete, enqueue, fail, register, started
from wakeful.edges.cli.asking import Asking, acting
from wakeful.edges.top.screen import Top
from wakeful.testing import Database


@pytest.fixture
def top(database: Database) -> Top:
    @contextmanager
    def connects() -> Iterator[Asking]:
        with acting(database.dsn) as asking:
            yield asking

    return Top(connects, every=3600, actor="tester")


async def looked(pilot: Any, top: Top) -> None:
    """What was under way is done, and the screen is of this moment."""
    await at_rest(pilot, top)
    top.look()
    await at_rest(pilot, top)


async def at_rest(pilot: Any, top: Top) -> None:
    await pilot.pause()
    while any(not worker.is_finished for worker in top.workers):
        await pilot.pause(0.01)
    await pilot.pause()


def rows(top: Top, name: str) -> list[list[Any]]:
    table = top.query_one(f"#{name}", DataTable)
    return [[str(cell) for cell in table.get_row_at(index)] for index in range(table.row_count)]


async def test_it_shows_what_is_there(top: Top, db: Session) -> None:
    register(db)
    enqueue(db, "waits", queue="mail")
    started(db, "runs")
    complete(db, started(db, "done"))
    fail(db, started(db, "broken[red]"), no_retry=True, code="E", message="line\nbreak")
    async with top.run_test() as pilot:
        await looked(pilot, top)
        queues = rows(top, "queues")
        assert [row[:2] for row in queues] == [["default", "0"], ["mail", "1"]]
        assert [row[1] for row in rows(top, "running")] == ["runs"]
        assert [[row[1], *row[3:]] for row in rows(top, "failures")] == [["broken[red]", "E", "line break"]]
        assert [row[0] for row in rows(top, "workers")] == ["w"]
        assert {row[0] for row in rows(top, "tasks")} == {"done", "broken[red]"}
        assert "1 worker · 1 dead, unseen" in str(top.query_one("#line", Static).render())


async def test_a_small_terminal_shows_the_first_line_and_the_keys(top: Top, db: Session) -> None:
    for n in range(40):
        enqueue(db, queue=f"q{n}")
    async with top.run_test(size=(60, 20)) as pilot:
        await looked(pilot, top)
        await pilot.press("down", "down")
        assert top.screen.max_scroll_y == 0
        line, footer = top.query_one("#line", Static).region, top.query_one(Footer).region
        assert (line.y, footer.bottom) == (0, 20)


async def test_keys_pause_and_resume_a_queue(top: Top, db: Session) -> None:
    enqueue(db, queue="mail")
    async with top.run_test() as pilot:
        await looked(pilot, top)
        for paused in (True, False):
            await pilot.press("p")
            await looked(pilot, top)
            assert query(db, "select paused, changed_by from wakeful.controls") == [
                {"paused": paused, "changed_by": "tester"}
            ]


async def test_keys_requeue_and_acknowledge_a_failure(top: Top, db: Session) -> None:
    for _ in range(2):
        fail(db, started(db), no_retry=True)
    async with top.run_test() as pilot:
        await looked(pilot, top)
        await pilot.press("a")
        assert not query(db, "select from wakeful.dead_letters where acknowledged")
        top.query_one(TabbedContent).active = "failures-tab"
        for key in ("a", "r"):
            await pilot.press(key)
            await looked(pilot, top)
    letters = query(
        db, "select acknowledged_by, requeued_as is not null as back from wakeful.dead_letters order by back"
    )
    assert [(row["acknowledged_by"], row["back"]) for row in letters] == [("tester", False), ("tester", True)]


async def test_a_key_closes_a_breaker(top: Top, db: Session) -> None:
    db.execute(
        "insert into wakeful.breaker (name, state, opened_at, probe_at, updated_at)"
        " values ('mail', 'open', now(), now() + interval '1 minute', now())"
    )
    async with top.run_test() as pilot:
        await looked(pilot, top)
        assert [row[:2] for row in rows(top, "breakers")] == [["mail", "open"]]
        top.query_one(TabbedContent).active = "breakers-tab"
        await pilot.press("b")
        await looked(pilot, top)
    assert query(db, "select state from wakeful.breakers") == [{"state": "closed"}]


async def test_a_database_that_goes_away_is_told_of_on_the_screen(database: Database) -> None:
    gone = Top(lambda: acting("postgresql://127.0.0.1:1/nowhere"), every=3600, actor=None)
    async with gone.run_test() as pilot:
        await looked(pilot, gone)
        assert "does not answer" in str(gone.query_one("#line", Static).render())
