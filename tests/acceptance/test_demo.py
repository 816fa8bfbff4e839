"""`wakeful demo`: it ends by itself, everything adds up, and nothing is left behind."""

from __future__ import annotations

import fcntl
import io
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo
from rich.console import Console

from tests.acceptance.processes import COMMAND, environment, run, wait_until
from tests.sessions import query, session
from wakeful.edges.demo.accounts import accounts
from wakeful.edges.demo.acts import STORY
from wakeful.edges.demo.chart import chart
from wakeful.edges.demo.gauge import Books
from wakeful.edges.demo.present import conclude
from wakeful.edges.demo.scene import Scene
from wakeful.edges.demo.screen import LEAST_COLUMNS, LEAST_ROWS, ROOMY_ROWS, render
from wakeful.testing import Database

DEMO_DATABASE = "select datname from pg_database where datname = %s"
BOOKS = Books(
    90, 6, 4, 0, effects=90, jobs_with_effect=90, orders=30, order_jobs=30, retried=5, rescued=7, slots=9, slot_jobs=9
)


def demo_processes(folder: Path) -> list[str]:
    """What still runs of a demo whose temporary files are in this folder."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if str(folder) in line]


def test_without_a_terminal_it_ends_by_itself_and_adds_up(tmp_path: Path) -> None:
    ran = run("demo", "--seconds", "10", folder=tmp_path, TMPDIR=str(tmp_path), WAKEFUL_DSN="postgresql://elsewhere/")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
    told = ran.stdout
    assert "Every job is accounted for." in told
    found = re.search(r"✓ ([\d,]+) jobs enqueued = ([\d,]+) completed \+ (\d+) dead \+ (\d+) cancelled", told)
    assert found is not None
    enqueued, completed, dead, cancelled = (int(number.replace(",", "")) for number in found.groups())
    assert enqueued == completed + dead + cancelled
    assert (dead, cancelled) == (1, 1)
    assert enqueued > 1200
    assert f"✓ {completed:,} completed = {completed:,} effects: none lost" in told
    for part in (
        r"✓ 1,200 pictures at once: done in",
        r"✓ Worker \d killed with -9: its [1-9]\d* jobs rescued after \d\.\d s, all done",
        r"✓ A webhook died after 3 attempts; mended, put back, delivered",
        r"✓ A reminder was due at 0:04: started \d+\.\d ms after its moment",
        r"✓ A schedule fired every second: ([6-9]|1\d) slots, \1 jobs, started \d+\.\d ms after their moments",
        r"✓ \d+ slots of a schedule = \d+ jobs",
        r"✓ Payments down: breaker opened, closed \d\.\d s after; 40 paid, [1-9]\d* in vain",
        r"✓ A reminder nobody wants any more: cancelled before its moment",
        r"✓ One mail in eight is turned away at first: [1-9]\d* sent at the second attempt",
    ):
        assert re.search(part, told), told
    assert list(tmp_path.iterdir()) == []
    assert demo_processes(tmp_path) == []


def test_on_a_terminal_it_goes_on_until_ctrl_c_and_then_adds_up(database: Database, tmp_path: Path) -> None:
    pid, terminal = os.forkpty()
    if pid == 0:
        os.environ.update({"TMPDIR": str(tmp_path), "TERM": "xterm-256color"})
        os.execv(sys.executable, [*COMMAND, "demo", "--dsn", database.dsn])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shown = ""

    def shows(part: str) -> bool:
        nonlocal shown
        try:
            shown += os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            return part in shown
        return part in shown

    wait_until(lambda: shows("effects of"), "the screen")
    with session(database.dsn) as db:
        assert len(query(db, DEMO_DATABASE, f"wakeful_demo_{pid}")) == 1
        os.write(terminal, b"\x03")
        wait_until(lambda: shows("Every job is accounted for."), "the summary")
        wait_until(lambda: shows("wakeful dev module:app"), "the end")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert query(db, DEMO_DATABASE, f"wakeful_demo_{pid}") == []
    os.close(terminal)
    assert list(tmp_path.iterdir()) == []


def test_a_user_who_may_not_create_databases_is_told_so(database: Database, tmp_path: Path) -> None:
    role = f"{database.name}_poor"
    with session(database.dsn) as db:
        db.execute(f"create role {role} login password 'x'")
        try:
            poor = make_conninfo(database.dsn, user=role, password="x", dbname="postgres")
            ran = run("demo", "--dsn", poor, folder=tmp_path)
        finally:
            db.execute(f"drop role {role}")
    assert ran.returncode == 1
    assert ran.stderr == (
        "wakeful: This user may not create a database, which the demo needs: "
        "grant CREATEDB to it, or give the DSN of one that may.\n"
    )


def test_interrupted_twice_it_still_cleans_up(database: Database, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "demo", "--dsn", database.dsn],
        env=environment(None, {"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        assert "The schema is made" in demo.stdout.readline()
        demo.send_signal(signal.SIGINT)
        demo.send_signal(signal.SIGINT)
        told = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert told[1] == "wakeful: Interrupted.\n"
    with session(database.dsn) as db:
        assert query(db, DEMO_DATABASE, f"wakeful_demo_{demo.pid}") == []
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_add_up_is_named_and_ends_with_one() -> None:
    assert all(account.holds for account in accounts(100, BOOKS))
    page = io.StringIO()
    scene = Scene(enqueued=101, log="the last words of a worker")
    assert conclude(Console(file=page, width=100), scene, BOOKS) == 1
    assert "It does not add up." in page.getvalue()
    assert "✗ 101 jobs enqueued = 90 completed + 6 dead + 4 cancelled" in page.getvalue()
    assert "the last words of a worker" in page.getvalue()


@pytest.mark.parametrize("rows", [LEAST_ROWS, ROOMY_ROWS - 1, ROOMY_ROWS])
def test_the_screen_fits_with_three_workers_and_the_whole_story(rows: int) -> None:
    scene = Scene(began=time.monotonic(), pids=[1, 2, 3])
    for act in STORY:
        scene.line(act.title)
    page = io.StringIO()
    Console(file=page, width=LEAST_COLUMNS, height=rows).print(render(scene, LEAST_COLUMNS, rows))
    assert page.getvalue().count("\n") <= rows


def test_a_chart_has_one_column_a_sample_and_its_peak_is_full() -> None:
    assert list(chart([0, 200, 400], 10, 2)) == ["  █", " ██"]
    assert list(chart([1.0] * 50, 10, 1)) == ["▁" * 10]
