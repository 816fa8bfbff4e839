"""`wakeful worker` as one process: how it is told what to do, what it tells, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from tests.acceptance.processes import assert_sentence, lives, run, running, shop_in, started, wait_until
from tests.sessions import query, scalar, session
from tests.verbs import enqueue
from wakeful.database.address import describe
from wakeful.testing import Database


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shop_in(tmp_path)


def states(dsn: str) -> dict[str, int]:
    with session(dsn) as db:
        found = query(db, "select state, count(*) as jobs from wakeful.jobs group by state")
    return {row["state"]: row["jobs"] for row in found}


def test_once_runs_what_is_due_up_to_its_limit_and_prints_a_summary(database: Database, folder: Path) -> None:
    with session(database.dsn) as db:
        for number in range(5):
            enqueue(db, "quick", {"number": number})
        enqueue(db, "broken", max_attempts=1)
        enqueue(db, "quick", {"number": 9}, delay="1 hour")
    first = run("worker", "shop:app", "--once", "--limit", "2", folder=folder, dsn=database.dsn)
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("2 processed, 2 succeeded, 0 failed\n")
    rest = run("worker", "shop:app", "--once", "--json", folder=folder, dsn=database.dsn)
    assert rest.returncode == 0, rest.stderr
    assert json.loads(rest.stdout) == {
        "processed": 4,
        "succeeded": 3,
        "failed": 1,
        "by_task": {
            "quick": {"processed": 3, "succeeded": 3, "failed": 0},
            "broken": {"processed": 1, "succeeded": 0, "failed": 1},
        },
    }
    assert states(database.dsn) == {"completed": 5, "dead": 1, "scheduled": 1}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "Which app? Say `module:attribute` after the command, in WAKEFUL_APP, or as `app` in wakeful.toml."),
        (["nowhere:app"], "There is no module 'nowhere' in "),
        (["shop"], "App 'shop' is not complete: write module:attribute, such as shop:app."),
        (["./shop.py:app"], "names a file: name the module instead, shop:app."),
        (["shop:ap"], "Module 'shop' has no 'ap': did you mean shop:app?"),
        (["shop:quick"], "shop:quick is a Task, not an app"),
        (["shop:empty"], "shop:empty has no task: declare some with @app.task"),
        (["torn:app"], "cannot be imported: SyntaxError: '(' was never closed (torn.py:1). Correct it there."),
        (["needy:app"], "cannot be imported: ModuleNotFoundError: No module named 'absent' (needy.py:2)."),
        (["shop:app", "--concurrency", "many"], "--concurrency is 'many': give a whole number from 1 to 10000."),
        (["shop:app", "--lease", "0"], "--lease is '0': give a duration of more than zero."),
        (["shop:app", "--queues", "a,a"], "which names a queue twice"),
        (["shop:app", "--log-format", "xml"], "--log-format is 'xml': choose from auto, json, text."),
        (["shop:app", "--limit", "3"], "--limit is for the summary of --once: add that."),
        (["shop:app", "--once", "--processes", "2"], "--once runs in one process: leave --processes out."),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(folder: Path, arguments: list[str], part: str) -> None:
    (folder / "torn.py").write_text("app = Wakeful(\n")
    (folder / "needy.py").write_text("\nimport absent\n")
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    assert_sentence(run("worker", *arguments, folder=folder, dsn=nowhere), 2, part)


def test_a_database_that_does_not_serve_is_told_in_a_sentence(
    database: Database, blank_database: Database, folder: Path
) -> None:
    for dsn, part in (
        (make_conninfo(database.dsn, port=1), "does not answer. Start it"),
        (make_conninfo(database.dsn, password="hunter2"), "refused the password. Correct the user or the password"),
        (blank_database.dsn, "has no wakeful schema. Run `wakeful migrate up`."),
    ):
        assert_sentence(run("worker", "shop:app", folder=folder, dsn=dsn), 1, part)


def test_a_flag_comes_before_its_variable_and_that_before_the_file(database: Database, folder: Path) -> None:
    (folder / "wakeful.toml").write_text(
        'app = "shop:app"\n[worker]\nconcurrency = 3\nlease = 40\npoll_interval = "7s"\n[log]\nlog_format = "json"\n'
    )
    with running("worker", "--lease", "60", folder=folder, dsn=database.dsn, WAKEFUL_CONCURRENCY="5") as worker:
        [line] = worker.wait_for("worker_started")
        assert line["slots"] == 5
        assert line["database"] == describe(database.dsn)
        with session(database.dsn) as db:
            lease = scalar(db, "select extract(epoch from lease_expires_at - beat_at)::int from wakeful.workers")
        assert lease == 60
        worker.send(signal.SIGINT)
        assert worker.ended() == 0


def test_sigterm_finishes_what_runs_and_ends_with_zero(database: Database, folder: Path) -> None:
    with session(database.dsn) as db, running("worker", "shop:app", folder=folder, dsn=database.dsn) as worker:
        worker.wait_for("worker_started")
        enqueue(db, "slow", {"seconds": 0.6})
        wait_until(lambda: started(folder))
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0
        assert states(database.dsn) == {"completed": 1}
        assert query(db, "select * from wakeful.workers") == []


def test_a_second_sigterm_cuts_off_even_a_thread_that_will_not_end(database: Database, folder: Path) -> None:
    with session(database.dsn) as db, running("worker", "shop:app", folder=folder, dsn=database.dsn) as worker:
        worker.wait_for("worker_started")
        enqueue(db, "stuck", {"seconds": 40})
        wait_until(lambda: started(folder))
        worker.send(signal.SIGTERM)
        worker.wait_for("worker_stopping")
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0
        [job] = query(db, "select state, attempt from wakeful.jobs")
        assert (job["state"], job["attempt"]) == ("ready", 0)


@pytest.mark.parametrize(("flag", "most"), [("--max-jobs", "4"), ("--max-rss", "16")])
def test_a_process_at_its_limit_finishes_and_ends_with_zero(
    database: Database, folder: Path, flag: str, most: str
) -> None:
    with session(database.dsn) as db:
        for number in range(20):
            enqueue(db, "quick", {"number": number})
    arguments = ("worker", "shop:app", flag, most, "--concurrency", "2")
    with running(*arguments, folder=folder, dsn=database.dsn) as worker:
        assert worker.ended() == 0
        [line] = worker.events("worker_recycling")
        assert line["limit"] == flag.removeprefix("--").replace("-", "_")
    assert "running" not in states(database.dsn)


def test_sighup_starts_the_same_process_afresh_with_settings_read_again(database: Database, folder: Path) -> None:
    settings = folder / "wakeful.toml"
    settings.write_text("[worker]\nconcurrency = 3\n")
    with running("worker", "shop:app", folder=folder, dsn=database.dsn) as worker:
        worker.wait_for("worker_started")
        settings.write_text("[worker]\nconcurrency = 4\n")
        worker.send(signal.SIGHUP)
        first, second = worker.wait_for("worker_started", 2)
        assert (first["slots"], second["slots"]) == (3, 4)
        assert first["pid"] == second["pid"] == worker.pid
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0


def test_on_a_terminal_lines_are_for_people_and_closing_it_ends_the_worker(database: Database, folder: Path) -> None:
    pid, terminal = os.forkpty()
    if pid == 0:
        os.chdir(folder)
        os.environ["WAKEFUL_DSN"] = database.dsn
        # With it nothing is left to be written at the end.
        os.environ.pop("PYTHONUNBUFFERED", None)
        command = ["-m", "wakeful.edges.cli", "worker", "shop:app"]
        os.execv(sys.executable, [sys.executable, *command])
    shown = b""

    def is_started() -> bool:
        nonlocal shown
        shown += os.read(terminal, 4096)
        return b"worker started" in shown

    wait_until(is_started)
    assert b"{" not in shown
    os.close(terminal)
    wait_until(lambda: not lives(pid), "the worker's end")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with session(database.dsn) as db:
        assert query(db, "select * from wakeful.workers") == []


@pytest.mark.parametrize(
    "signals",
    [(signal.SIGHUP, signal.SIGHUP, signal.SIGTERM), (signal.SIGTERM, signal.SIGHUP)],
    ids=["hup hup term", "term hup"],
)
def test_sigterm_beside_sighup_ends_it_for_good_and_what_runs_is_finished(
    database: Database, folder: Path, signals: tuple[signal.Signals, ...]
) -> None:
    with session(database.dsn) as db:
        enqueue(db, "slow", {"seconds": 2})
    with running("worker", "shop:app", folder=folder, dsn=database.dsn) as worker:
        wait_until(lambda: started(folder) == 1)
        for number in signals:
            worker.send(number)
            # Each by itself: two of a kind that are not seen to yet are one.
            wait_until(lambda: not pending(worker.pid))
        assert worker.ended() == 0
        assert len(worker.events("worker_started")) == 1
    with session(database.dsn) as db:
        assert query(db, "select state, epoch from wakeful.jobs") == [{"state": "completed", "epoch": 1}]


def pending(pid: int) -> bool:
    """Whether a signal waits to be delivered to the process."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return any(int(line.split()[1], 16) for line in status if line.startswith(("SigPnd", "ShdPnd")))
