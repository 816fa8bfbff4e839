"""`wakeful stats`, `top` and completion as processes."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys

from tests.acceptance.commands import CONSOLE_SCRIPT, Commands
from tests.sessions import Session
from tests.verbs import claim_one, complete, enqueue, fail, started


def test_runs_are_shown_by_task_with_percentiles(wakeful: Commands, db: Session) -> None:
    held = started(db, "a")
    fail(db, held, retry_in="0")
    complete(db, claim_one(db))
    complete(db, started(db, "b"))
    told = {one["task"]: one for one in wakeful.json("stats", "--by-task", "--since", "1h")}
    assert (told["a"]["completed"], told["a"]["failed"], told["b"]["completed"]) == (1, 1, 1)
    assert 0 < told["a"]["run_p50"] <= told["a"]["run_p99"] < 60
    assert "WAIT P95" in wakeful.text("stats", "--by-task")
    assert [one["task"] for one in wakeful.json("stats", "--by-task", "--task", "b")] == ["b"]


def test_usage_is_exported(wakeful: Commands, db: Session) -> None:
    complete(db, started(db, "a", tenant="acme"))
    complete(db, started(db, "b", tenant="acme"))
    rows = list(csv.DictReader(io.StringIO(wakeful.text("stats", "--usage", "--csv"))))
    assert [(row["tenant"], row["task"], row["outcome"], row["runs"]) for row in rows] == [
        ("acme", "a", "completed", "1"),
        ("acme", "b", "completed", "1"),
    ]
    [told] = wakeful.json("stats", "--usage", "--since", "2d", "--task", "a")
    assert (told["tenant"], told["runs"]) == ("acme", 1)
    assert "acme" in wakeful.text("stats", "--usage")


def test_the_fleets_numbers_are_told_to_prometheus(wakeful: Commands, db: Session) -> None:
    enqueue(db, "a")
    assert 'wakeful_job_queue_depth{task="a"} 1.0' in wakeful.text("stats", "--prometheus")


def test_what_does_not_go_together_is_refused(wakeful: Commands) -> None:
    for arguments in (["--since", "1h"], ["--by-task", "--usage"], ["--csv"], ["--usage", "--csv", "--json"]):
        assert "Choose --by-task or --usage" in wakeful.refusal(2, "stats", *arguments)


def test_top_needs_a_terminal_or_gives_one_document(wakeful: Commands, db: Session) -> None:
    enqueue(db, queue="mail")
    assert "top needs a terminal" in wakeful.refusal(2, "top")
    told = wakeful.json("top")
    assert [one["queue"] for one in told["queues"]] == ["mail"]
    assert told["dead"] == told["workers"] == []


def test_the_shell_completes_commands_and_options() -> None:
    def completed(words: str, number: int) -> list[str]:
        ran = subprocess.run(
            [sys.executable, "-c", CONSOLE_SCRIPT],
            env={**os.environ, "_WAKEFUL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return ran.stdout.split()

    assert completed("wakeful he", 1) == ["plain,health"]
    assert completed("wakeful jobs list --st", 3) == ["plain,--state"]
