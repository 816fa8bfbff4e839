"""Seed 000, LiteVault: its integration tests, its end-to-end check, and the way from its old table."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID, uuid4

import httpx
import pytest

from examples.litevault import api as vault
from examples.litevault.enrichment import POLICY, app, enrich_item
from tests.acceptance.processes import Running, wait_until
from tests.importing import shapes
from tests.sessions import Session, query, scalar, session
from wakeful.edges.importing.mapping import find_mapping
from wakeful.edges.importing.run import importer
from wakeful.testing import Database, Sandbox, sandboxed

WORKER = (sys.executable, "-m", "wakeful.edges.cli", "worker", "examples.litevault.enrichment:app")


@pytest.fixture(autouse=True)
def sandbox(database: Database) -> Iterator[Sandbox]:
    with sandboxed(app, database) as made:
        yield made


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn


@pytest.fixture
async def client(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    """The API, in this process."""
    transport = httpx.ASGITransport(vault.api)
    async with vault.lifespan(vault.api), httpx.AsyncClient(transport=transport, base_url="http://vault") as opened:
        yield opened
    await app.aclose()


@contextmanager
def worker(dsn: str, *options: str) -> Iterator[Running]:
    """A worker process that has registered; told to stop at the end, if it still runs."""
    environment = {**os.environ, "WAKEFUL_DSN": dsn, "WAKEFUL_LOG_FORMAT": "json"}
    process = subprocess.Popen([*WORKER, *options], env=environment, stderr=subprocess.PIPE, text=True)
    running = Running(process)
    try:
        running.wait_for("worker_started")
        yield running
        if process.poll() is None:
            running.send(signal.SIGTERM)
            assert running.ended() == 0
    finally:
        running.close()


async def create(client: httpx.AsyncClient, content: str = "some words") -> UUID:
    answer = await client.post("/items", json={"content": content})
    assert answer.status_code == 201, answer.text
    return UUID(answer.json()["id"])


def item(db: Session, id: UUID) -> dict[str, object]:
    [found] = query(db, "select * from item where id = %s", id)
    return found


async def is_enriched(db: Session, id: UUID) -> None:
    await asyncio.to_thread(wait_until, lambda: item(db, id)["status"] == "READY_TO_CONFIRM", "the enrichment")


async def test_item_and_job_are_made_in_one_transaction(client: httpx.AsyncClient, db: Session) -> None:
    id = await create(client)
    [job] = query(db, "select * from wakeful.jobs")
    assert (job["task"], job["payload"], job["state"]) == ("enrichment", {"item_id": str(id)}, "ready")
    db.execute("create function boom() returns trigger language plpgsql as $$ begin raise 'no'; end $$")
    db.execute(
        "create constraint trigger boom after insert on item deferrable initially deferred"
        " for each row execute function boom()"
    )
    with pytest.raises(Exception, match="no"):
        await create(client)
    assert scalar(db, "select count(*) from item") == scalar(db, "select count(*) from wakeful.jobs") == 1


async def test_happy_path(client: httpx.AsyncClient, db: Session, database: Database) -> None:
    """Enqueue → NOTIFY → drain → completed; the poll is far too slow to have helped."""
    with worker(database.dsn, "--poll-interval", "300"):
        id = await create(client)
        await is_enriched(db, id)
        told = (await client.get(f"/items/{id}")).json()
    assert (told["status"], told["summary"]) == ("READY_TO_CONFIRM", "some words (2 words)")
    assert query(db, "select state, result from wakeful.jobs") == [{"state": "completed", "result": "enriched"}]


async def test_missed_notify(client: httpx.AsyncClient, db: Session, database: Database) -> None:
    """Enqueued without a NOTIFY: the poll picks it up."""
    with worker(database.dsn, "--poll-interval", "0.5"):
        wait_until(lambda: scalar(db, "select count(*) from wakeful.workers where asleep"))
        id = uuid4()
        db.execute("insert into item (id, content, status, enrichments) values (%s, 'a b', 'ENRICHING', 0)", [id])
        db.execute(
            "select wakeful.enqueue('enrichment', jsonb_build_object('item_id', %s::uuid), queue => 'enrichment',"
            " poke => false)",
            [id],
        )
        await is_enriched(db, id)


async def test_concurrent_workers(client: httpx.AsyncClient, db: Session, database: Database) -> None:
    """Two workers claim: no job is done twice."""
    with worker(database.dsn), worker(database.dsn):
        for _ in range(40):
            await create(client)
        await asyncio.to_thread(
            wait_until, lambda: scalar(db, "select count(*) from item where status = 'READY_TO_CONFIRM'") == 40
        )
    assert query(db, "select distinct enrichments from item") == [{"enrichments": 1}]
    assert query(db, "select distinct attempt, state from wakeful.jobs") == [{"attempt": 1, "state": "completed"}]


async def test_crash_recovery(client: httpx.AsyncClient, db: Session, database: Database) -> None:
    """Claim → crash → the lease lapses → another worker has it. This is the end-to-end check's kill, too."""
    id = await create(client, "hang on")
    with worker(database.dsn, "--lease", "3") as first:
        wait_until(lambda: scalar(db, "select state from wakeful.jobs") == "running")
        first.send(signal.SIGKILL)
        assert first.ended() == -signal.SIGKILL
    with worker(database.dsn, "--lease", "3"):
        await is_enriched(db, id)
    [job] = query(db, "select attempt, epoch, worker_id, attempts from wakeful.jobs")
    assert (job["attempt"], job["epoch"], job["attempts"][0]["outcome"]) == (2, 2, "crashed")
    assert job["attempts"][0]["worker_id"] != str(job["worker_id"])


async def test_idempotency(client: httpx.AsyncClient, db: Session) -> None:
    """Processed twice: the item is as it was after the first time."""
    id = await create(client)
    await enrich_item.aenqueue(id)
    assert (await app.worker().arun_once()).succeeded == 2
    assert item(db, id)["enrichments"] == 1
    assert {row["result"] for row in query(db, "select result from wakeful.jobs")} == {"enriched", "skipped"}


async def test_a_discarded_item_is_left_alone(client: httpx.AsyncClient, db: Session) -> None:
    id = await create(client)
    assert (await client.post(f"/items/{id}/discard")).json()["status"] == "DISCARDED"
    await app.worker().arun_once()
    assert (item(db, id)["status"], item(db, id)["summary"]) == ("DISCARDED", None)
    assert (await client.get(f"/items/{uuid4()}")).status_code == 404


def test_backoff_calculation() -> None:
    waits = [POLICY.delay(attempts) for attempts in range(4)]
    assert waits == [timedelta(0), timedelta(seconds=30), timedelta(minutes=5), None]


async def test_a_failing_item_is_tried_at_once_after_30_seconds_after_5_minutes_and_is_dead(
    client: httpx.AsyncClient, db: Session, sandbox: Sandbox
) -> None:
    await create(client, "broken 9")
    for attempts, wait in ((1, timedelta(seconds=30)), (2, timedelta(minutes=5))):
        assert (await app.worker().arun_once()).failed == 1
        [job] = query(db, "select *, run_at - updated_at as wait from wakeful.jobs")
        assert (job["state"], job["attempt"], job["wait"]) == ("scheduled", attempts, wait)
        assert job["last_error_message"] == "the model gave no answer"
        assert job["last_error_code"] == "EnrichmentError"
        assert (await app.worker().arun_once()).processed == 0
        sandbox.travel(wait + timedelta(seconds=1))
    assert (await app.worker().arun_once()).failed == 1
    assert scalar(db, "select state from wakeful.jobs") == "dead"
    assert scalar(db, "select error_message from wakeful.dead_letters") == "the model gave no answer"


async def test_an_item_that_fails_once_is_enriched_by_the_next_attempt(
    client: httpx.AsyncClient, db: Session, sandbox: Sandbox
) -> None:
    id = await create(client, "broken 1")
    await app.worker().arun_once()
    sandbox.travel(seconds=31)
    await app.worker().arun_once()
    assert item(db, id)["status"] == "READY_TO_CONFIRM"


async def test_structured_logs(client: httpx.AsyncClient, db: Session, database: Database) -> None:
    """The document's three lines, with its fields."""
    with worker(database.dsn) as running:
        good, bad = await create(client), await create(client, "broken 9")
        await asyncio.to_thread(running.wait_for, "job_failed")
        await asyncio.to_thread(running.wait_for, "job_completed")
        claimed = {line["job_id"]: line for line in running.events("job_claimed")}
        [completed], [failed] = running.events("job_completed"), running.events("job_failed")
    assert set(claimed) == {completed["job_id"], failed["job_id"]}
    assert all(line["attempt"] == 1 and line["worker_id"] for line in claimed.values())
    assert {line["item_id"] for line in claimed.values()} == {str(good), str(bad)}
    assert (completed["item_id"], failed["item_id"]) == (str(good), str(bad))
    assert completed["duration_ms"] > 0
    assert (failed["error_code"], failed["will_retry"]) == ("EnrichmentError", True)


def scraped(port: int, part: str) -> str | None:
    """What a worker tells whoever scrapes it, once this is in it."""
    told = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
    return told if part in told else None


async def test_metrics(client: httpx.AsyncClient, db: Session, database: Database) -> None:
    """The document's six metrics and their labels, scraped from a worker that a notification has woken."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with worker(database.dsn, "--probe-port", str(port)):
        wait_until(lambda: scalar(db, "select count(*) from wakeful.workers where asleep"))
        await create(client)
        # The worker counts a job when it has heard that it is settled.
        told = await asyncio.to_thread(wait_until, lambda: scraped(port, 'status="success"'), "the count")
    samples = dict(line.rsplit(" ", 1) for line in told.splitlines() if line and not line.startswith("#"))
    assert samples['wakeful_job_claimed_total{task="enrichment",worker_id="0"}'] == "1.0"
    assert samples['wakeful_job_completed_total{status="success",task="enrichment"}'] == "1.0"
    assert samples['wakeful_job_processing_seconds_count{task="enrichment"}'] == "1.0"
    assert float(samples['wakeful_job_notification_received_total{channel="wakeful"}']) >= 1
    assert "wakeful_job_poll_scanned_total" in samples
    assert "# TYPE wakeful_job_queue_depth gauge" in told


async def test_100_items_rapidly_are_all_enriched_within_5_seconds(
    client: httpx.AsyncClient, db: Session, database: Database
) -> None:
    with worker(database.dsn):
        await asyncio.gather(*(create(client) for _ in range(100)))
        await asyncio.to_thread(
            wait_until, lambda: scalar(db, "select count(*) from item where status = 'READY_TO_CONFIRM'") == 100
        )
    whole = "select extract(epoch from max(finished_at) - min(created_at)) from wakeful.jobs where state = 'completed'"
    assert scalar(db, whole) < 5


def test_the_old_table_is_adopted_while_the_old_api_writes(db: Session, database: Database) -> None:
    """Its rows, those in progress too once their claim has aged, become jobs that the worker takes as its own."""
    db.execute("create table item (id uuid primary key, content text, status text, summary text, enrichments int)")
    db.execute(shapes.LITEVAULT)
    ids = [uuid4() for _ in range(4)]
    for id in ids:
        db.execute("insert into item values (%s, 'a b c', 'ENRICHING', null, 0)", [id])
    db.execute("insert into enrichment_outbox (item_id) values (%s)", [ids[0]])
    db.execute(
        "insert into enrichment_outbox (item_id, status, claimed_at) values"
        " (%s, 'IN_PROGRESS', now() - interval '1 hour'), (%s, 'IN_PROGRESS', now())",
        [ids[1], ids[2]],
    )
    with importer(database.dsn, find_mapping("litevault", {})) as work:
        assert work.run(aged=timedelta(minutes=30)).moved == 2
        db.execute("insert into enrichment_outbox (item_id) values (%s)", [ids[3]])
        assert work.run(aged=timedelta(minutes=30)).left == {"IN_PROGRESS": 1}
    assert app.worker().run_once().succeeded == 3
    enriched = query(db, "select id from item where status = 'READY_TO_CONFIRM' and enrichments = 1")
    assert {row["id"] for row in enriched} == {ids[0], ids[1], ids[3]}
