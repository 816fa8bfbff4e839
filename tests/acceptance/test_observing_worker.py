"""`wakeful worker` as others see it: its log lines, and its probe port."""

from __future__ import annotations

import json
import socket
import urllib.request
from pathlib import Path
from uuid import UUID

from tests.acceptance.processes import assert_sentence, run, running, wait_until
from tests.sessions import session
from tests.verbs import enqueue
from wakeful.testing import Database

APP = """
import logging
import wakeful

app = wakeful.Wakeful()

@app.task(name="enrich", log_fields=("item_id",))
async def enrich(ctx: wakeful.Context, item_id: str) -> None:
    logging.getLogger("shop").info("looking")
    ctx.count("upserted", 9)

@app.task(name="plain")
async def plain() -> None: ...
"""


def shop(folder: Path) -> Path:
    (folder / "shop.py").write_text(APP)
    return folder


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_once_logs_every_job_as_json_with_the_event_and_its_fields(database: Database, tmp_path: Path) -> None:
    with session(database.dsn) as db:
        id = enqueue(db, "enrich", {"item_id": "i-1"}, tenant="acme")
        plain = enqueue(db, "plain")
    ran = run("worker", "shop:app", "--once", "--json", folder=shop(tmp_path), dsn=database.dsn)
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    by_event = {(line["event"], line.get("job_id")): line for line in lines}
    for event, job in (("job_claimed", id), ("job_completed", id), ("job_claimed", plain), ("job_completed", plain)):
        line = by_event[event, str(job)]
        assert (line["correlation_id"], line["attempt"], line["queue"]) == (str(job), 1, "default")
        assert UUID(line["worker_id"]).version == 7
    assert by_event["job_completed", str(id)]["item_id"] == "i-1"
    assert by_event["job_completed", str(plain)]["duration_ms"] >= 0
    [own] = [line for line in lines if line.get("message") == "looking"]
    assert (own["job_id"], own["item_id"], own["tenant"], own["task"]) == (str(id), "i-1", "acme", "enrich")
    [batch] = [line for line in lines if line["event"] == "batch_completed"]
    assert (batch["processed"], batch["counters"]) == (2, {"upserted": 9})
    assert json.loads(ran.stdout)["counters"] == {"upserted": 9}


def test_a_worker_answers_probes_and_scrapes(database: Database, tmp_path: Path) -> None:
    port = free_port()
    flags = ("--probe-port", str(port))
    with running("worker", "shop:app", *flags, folder=shop(tmp_path), dsn=database.dsn) as worker:
        worker.wait_for("worker_started")

        def answer(path: str) -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as told:
                return str(told.read().decode())

        assert json.loads(answer("/readyz"))["status"] == "ok"
        with session(database.dsn) as db:
            enqueue(db, "plain")
        counted = 'wakeful_job_completed_total{status="success",task="plain"} 1.0'
        wait_until(lambda: counted in answer("/metrics") or None)
        assert "wakeful_workers_alive 1.0" in answer("/metrics")
        assert_sentence(
            run("worker", "shop:app", *flags, folder=tmp_path, dsn=database.dsn, WAKEFUL_LOG_LEVEL="error"),
            2,
            f"probe_port {port} cannot be had",
        )
