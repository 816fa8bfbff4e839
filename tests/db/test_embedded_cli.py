"""`wakeful db`, as a process: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.db.embedded_client import PATH, runs, wait_until
from wakeful.database import embedded

COMMAND = [sys.executable, "-c", "from wakeful.edges.cli.main import main; main()", "db"]


def test_a_server_by_hand_from_start_to_reset(tmp_path: Path) -> None:
    """In the working directory, as people do it."""
    assert _db(tmp_path, "status") == (1, "Not running.\n", "")
    assert json.loads(_db(tmp_path, "status", "--json")[1]) == {"running": False}

    dsn = _output(tmp_path, "start").strip()
    with psycopg.connect(dsn) as conn:
        conn.execute("create table kept ()")
    assert _output(tmp_path, "start").strip() == dsn

    facts = json.loads(_output(tmp_path, "status", "--json"))
    assert facts["running"]
    assert facts["pinned"]
    assert facts["dsn"] == dsn
    assert facts["directory"] == str(tmp_path / ".wakeful")
    shown = _output(tmp_path, "status")
    assert shown.startswith(f"PostgreSQL {facts['version']} runs, until `wakeful db stop`.\n")
    assert dsn in shown

    assert _output(tmp_path, "shell", "-Atc", "select 'kept'::regclass") == "kept\n"
    assert _db(tmp_path, "stop") == (0, "Stopped.\n", "")
    assert not runs(facts["pid"])
    assert _db(tmp_path, "stop") == (0, "It was not running.\n", "")

    code, out, asked = _db(tmp_path, "reset", text="no\n")
    assert (code, out) == (2, "")
    assert "add --yes" in asked
    assert str(tmp_path / ".wakeful") in asked
    assert (tmp_path / ".wakeful" / "postgres").exists()
    assert _db(tmp_path, "reset", "--yes") == (0, "Removed.\n", "")
    assert not (tmp_path / ".wakeful" / "postgres").exists()
    assert _db(tmp_path, "reset", "--yes") == (0, "There was nothing to remove.\n", "")


def test_the_shell_starts_the_server_and_is_its_user(tmp_path: Path) -> None:
    directory = tmp_path / "elsewhere"
    with subprocess.Popen(
        [*COMMAND, "shell", f"--directory={directory}", "-At"],
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write("select current_user;\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == "wakeful\n"
        found = embedded.status(directory)
        assert found is not None
        assert not found.pinned
        # With no user left, the users' lock could be had.
        assert _holders(directory / "users.lock") == [shell.pid]
    assert embedded.stop(directory)
    wait_until(lambda: not runs(found.supervisor_pid))


@pytest.mark.parametrize("command", [["start"], ["shell"]])
def test_an_error_is_one_sentence(tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL_PG_BIN", "/nowhere")
    assert _db(tmp_path, *command) == (
        1,
        "",
        "wakeful: WAKEFUL_PG_BIN is /nowhere, where there is no working PostgreSQL 15 or later: "
        "name the folder that holds `postgres` and `initdb`, or unset it.\n",
    )


def _db(folder: Path, *arguments: str, text: str = "") -> tuple[int, str, str]:
    """Exit code, output, complaint."""
    ended = subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=_environment(),
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


def _output(folder: Path, *arguments: str) -> str:
    code, output, complaint = _db(folder, *arguments)
    assert (code, complaint) == (0, "")
    return output


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": PATH}


def _holders(path: Path) -> list[int]:
    wanted = path.stat()
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    granted = [words for words in lines if words[1] == "FLOCK" and words[5].endswith(f":{wanted.st_ino}")]
    return [int(words[4]) for words in granted]
