"""`wakeful worker --processes N`: children that crash, retire, are replaced, and never outlive their parent."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.acceptance.processes import (
    Running,
    children_of,
    lives,
    run,
    running,
    shop_in,
    started,
    wait_until,
)
from tests.sessions import Session, query, scalar, session
from tests.verbs import enqueue
from wakeful.testing import Database

TWO = ("worker", "shop:app", "--processes", "2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shop_in(tmp_path)


def both_started(supervisor: Running) -> list[int]:
    """The children's numbers, once both of them work."""
    supervisor.wait_for("worker_started", 2)
    pids = children_of(supervisor.pid)
    assert len(pids) == 2
    return pids


def count(db: Session, state: str) -> int:
    found: int = scalar(db, "select count(*) from wakeful.jobs where state = %s", state)
    return found


def test_sigterm_ends_all_children_once_their_jobs_are_done(database: Database, folder: Path) -> None:
    with session(database.dsn) as db, running(*TWO, folder=folder, dsn=database.dsn) as supervisor:
        pids = both_started(supervisor)
        assert scalar(db, "select count(*) from wakeful.workers where alive") == 2
        for _ in range(4):
            enqueue(db, "slow", {"seconds": 0.5})
        wait_until(lambda: started(folder) == 4)
        supervisor.send(signal.SIGTERM)
        assert supervisor.ended() == 0
        assert not any(map(lives, pids))
        assert count(db, "completed") == 4
        assert query(db, "select * from wakeful.workers") == []


def test_a_second_sigterm_stops_the_children_at_once(database: Database, folder: Path) -> None:
    with session(database.dsn) as db, running(*TWO, folder=folder, dsn=database.dsn) as supervisor:
        both_started(supervisor)
        enqueue(db, "slow", {"seconds": 40})
        wait_until(lambda: started(folder))
        supervisor.send(signal.SIGINT)
        supervisor.wait_for("worker_stopping", 2)
        supervisor.send(signal.SIGINT)
        assert supervisor.ended() == 0
        assert count(db, "ready") == 1


def test_a_killed_child_is_followed_by_another_and_its_jobs_are_run(database: Database, folder: Path) -> None:
    short = (*TWO, "--lease", "1", "--concurrency", "2")
    with session(database.dsn) as db, running(*short, folder=folder, dsn=database.dsn) as supervisor:
        both_started(supervisor)
        for _ in range(4):
            enqueue(db, "slow", {"seconds": 0.8})
        wait_until(lambda: started(folder) == 4)
        [victim] = query(db, "select details ->> 'pid' as pid from wakeful.workers limit 1")
        os.kill(int(victim["pid"]), signal.SIGKILL)
        [crash] = supervisor.wait_for("process_crashed")
        assert (crash["end"], crash["in_a_row"]) == ("SIGKILL", 1)
        supervisor.wait_for("worker_started", 3)
        wait_until(lambda: count(db, "completed") == 4)
        assert len(children_of(supervisor.pid)) == 2


def test_children_of_a_killed_supervisor_finish_and_end(database: Database, folder: Path) -> None:
    with session(database.dsn) as db, running(*TWO, folder=folder, dsn=database.dsn) as supervisor:
        pids = both_started(supervisor)
        enqueue(db, "slow", {"seconds": 0.5})
        wait_until(lambda: started(folder))
        supervisor.send(signal.SIGKILL)
        wait_until(lambda: not any(map(lives, pids)), "the children's end")
        assert count(db, "completed") == 1
        assert query(db, "select * from wakeful.workers") == []


def test_a_child_at_its_limit_is_followed_by_another(database: Database, folder: Path) -> None:
    with session(database.dsn) as db:
        for number in range(60):
            enqueue(db, "quick", {"number": number})
        arguments = (*TWO, "--max-jobs", "10", "--concurrency", "2")
        with running(*arguments, folder=folder, dsn=database.dsn) as supervisor:
            wait_until(lambda: count(db, "completed") == 60)
            recycled = supervisor.wait_for("process_recycled")
            assert recycled[0]["end"] == "exit code 85"
            assert not supervisor.events("process_crashed")


def test_sighup_replaces_the_children_one_after_the_other_with_settings_read_again(
    database: Database, folder: Path
) -> None:
    settings = folder / "wakeful.toml"
    settings.write_text("[worker]\nconcurrency = 3\nprocesses = 2\n")
    with running("worker", "shop:app", folder=folder, dsn=database.dsn) as supervisor:
        before = both_started(supervisor)
        settings.write_text("[worker]\nconcurrency = 4\nprocesses = 3\n")
        supervisor.send(signal.SIGHUP)
        supervisor.wait_for("worker_started", 5)
        assert [line["slots"] for line in supervisor.events("worker_started")] == [3, 3, 4, 4, 4]
        assert not set(before) & set(children_of(supervisor.pid))
        # One after the other: the second goes only when the first one's successor is there.
        order = [line for line in supervisor.lines if '"worker_st' in line and '"worker_stopped"' not in line]
        assert ["started" in line for line in order] == [True, True, False, True, False, True, True]


def test_a_reload_that_cannot_work_leaves_the_others_as_they_were(database: Database, folder: Path) -> None:
    with running(*TWO, folder=folder, dsn=database.dsn) as supervisor:
        first, second = both_started(supervisor)
        (folder / "wakeful.toml").write_text("[worker]\nconcurrency = 0\n")
        supervisor.send(signal.SIGHUP)
        [refused] = supervisor.wait_for("reload_refused")
        assert "[worker] concurrency" in refused["message"]
        assert set(children_of(supervisor.pid)) == {first, second}
        (folder / "wakeful.toml").unlink()
        app = (folder / "shop.py").read_text()
        (folder / "shop.py").write_text("app = (\n")
        supervisor.send(signal.SIGHUP)
        supervisor.wait_for("reload_halted")
        assert lives(second)
        (folder / "shop.py").write_text(app)
        supervisor.wait_for("worker_started", 3)
        wait_until(lambda: len(children_of(supervisor.pid)) == 2)


def test_children_that_crash_again_and_again_are_given_up_with_a_sentence(database: Database, folder: Path) -> None:
    (folder / "fragile.py").write_text("import os\nos._exit(3)\n")
    ran = run("worker", "fragile:app", "--processes", "2", folder=folder, dsn=database.dsn)
    assert ran.returncode == 1
    assert ran.stderr.count('"process_crashed"') == 5
    assert ran.stderr.splitlines()[-1].startswith(
        "wakeful: No worker process stays alive: each crashed 5 times in a row, the last with exit code 3."
    )


def test_wrong_usage_is_told_once_and_ends_it_all(database: Database, folder: Path) -> None:
    ran = run("worker", "shop:nothing", "--processes", "3", folder=folder, dsn=database.dsn)
    assert ran.returncode == 2
    assert ran.stderr.count("Module 'shop' has no 'nothing': did you mean shop:app?") == 1
