"""What must go on is taken up again when it fails; fetching that cannot be taken up again ends the worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.sessions import Session, query, scalar
from tests.worker.work import comes_to, heard, listener_of, soon, starting, working
from wakeful.app import Wakeful
from wakeful.testing import Database
from wakeful.worker import duties, shift
from wakeful.worker.summary import Summary


@pytest.fixture(autouse=True)
def _tasks(app: Wakeful) -> None:
    @app.task(name="t")
    async def t() -> None: ...


@pytest.fixture
def broken_claims(db: Session) -> Iterator[Callable[[], object]]:
    """Claims fail in a way that nobody foresaw, until the function is put back."""
    whole = str(scalar(db, "select pg_get_functiondef('wakeful.hold_worker'::regproc)")).encode()
    db.execute(whole.replace(b"\nbegin\n", b"\nbegin\n    raise exception 'made up';\n", 1))
    yield lambda: db.execute(whole)
    db.execute(whole)


async def test_fetching_that_fails_for_a_while_is_taken_up_again(
    app: Wakeful, db: Session, broken_claims: Callable[[], object], caplog: pytest.LogCaptureFixture
) -> None:
    async with starting(app):
        id = await app.aenqueue("t")
        await soon(lambda: caplog.text.count("fetch_failed") >= 2)
        broken_claims()
        await comes_to(db, id, "completed")


async def test_fetching_that_cannot_be_taken_up_again_ends_the_worker(
    app: Wakeful, db: Session, broken_claims: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shift, "MOST_FAILURES", 3)
    await app.aenqueue("t")
    with pytest.raises(Exception, match="made up"):
        await app.worker().arun()
    assert not query(db, "select from wakeful.worker")


async def test_a_duty_that_fails_is_logged_and_taken_up_again(
    app: Wakeful, db: Session, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0
    again = asyncio.Event()

    async def failing(*_: object) -> None:
        nonlocal turns
        turns += 1
        if turns == 1:
            raise RuntimeError("made up")
        again.set()
        await asyncio.sleep(3600)

    monkeypatch.setattr(shift, "upkeep", failing)
    async with working(app):
        await heard(again)
        await comes_to(db, await app.aenqueue("t"), "completed")
    assert "duty_failed: upkeep" in caplog.text


async def test_the_fleet_is_told_when_a_worker_hears_nothing(
    app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duties, "EARS_EVERY", 0.01)

    def told() -> list[object]:
        return [row["details"].get("listener") for row in query(db, "select details from wakeful.workers")]

    async with working(app) as worker:
        await soon(lambda: listener_of(worker) is not None)
        await soon(lambda: told() != ["deaf"])
        listener = listener_of(worker)
        assert listener is not None
        listener._deaf = True
        await soon(lambda: told() == ["deaf"])
        listener._deaf = False
        await soon(lambda: told() == ["hears"])


async def test_what_was_measured_is_folded_by_a_worker_that_ran_something(
    app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duties, "FOLD_EVERY", 0.4)
    async with working(app):
        await comes_to(db, await app.aenqueue("t"), "completed")
        await soon(
            lambda: query(db, "select from wakeful.metric") and not query(db, "select from wakeful.metric_delta")
        )
    assert (await app.aget_metrics_summary())["successful_jobs"] == 1
    assert app.get_metrics_summary("t", since="1h")["total_jobs"] == 1


async def test_a_run_that_is_settled_after_it_was_counted_is_folded_too(
    app: Wakeful, db: Session, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duties, "FOLD_EVERY", 0)
    folding = duties.Folding(database.dsn, Summary(processed=1))
    await folding.fold()
    await app.aenqueue("t", poke=False)
    [job] = await app.queue.aclaim("t")
    await app.queue.amark_completed(job)
    await folding.fold()
    assert query(db, "select from wakeful.metric")
    assert not query(db, "select from wakeful.metric_delta")


async def test_upkeep_keeps_house(app: Wakeful, db: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duties, "UPKEEP_EVERY", 0.1)
    async with working(app):
        await comes_to(db, await app.aenqueue("t"), "completed")
        # The deltas are folded into the tally.
        await soon(lambda: query(db, "select from wakeful.tally") and not query(db, "select from wakeful.tally_delta"))
