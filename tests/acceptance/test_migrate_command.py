"""`wakeful migrate …` as a process, and how any command tells what went wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from tests.sessions import session
from wakeful.database.migrations import applied, newest_version, sql
from wakeful.testing import Database

CONSOLE_SCRIPT = "from wakeful.edges.cli.main import main; main()"


def wakeful(*arguments: str, dsn: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"WAKEFUL_DSN": dsn} if dsn else {}), **variables}
    return subprocess.run(
        [sys.executable, "-c", CONSOLE_SCRIPT, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def assert_sentence(ran: subprocess.CompletedProcess[str], code: int, part: str) -> None:
    """One line on stderr, nothing on stdout, no traceback."""
    assert ran.returncode == code, ran.stderr
    assert ran.stdout == ""
    assert ran.stderr.startswith("wakeful: ")
    assert ran.stderr.count("\n") == 1, ran.stderr
    assert part in ran.stderr


def test_up_status_and_down(blank_database: Database) -> None:
    dsn = blank_database.dsn
    fresh = wakeful("migrate", "status", dsn=dsn)
    assert fresh.returncode == 0
    assert "· 0001_core  pending" in fresh.stdout
    first = wakeful("migrate", "up", dsn=dsn)
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("✓ 0001_core applied\n")
    assert wakeful("migrate", "up", dsn=dsn).stdout == "The schema is up to date.\n"
    assert "✓ 0001_core  applied 2" in wakeful("migrate", "status", dsn=dsn).stdout
    back = wakeful("migrate", "down", "--to", "0", "--yes", dsn=dsn)
    assert back.returncode == 0, back.stderr
    assert back.stdout.endswith("✓ 0001_core taken back\n")
    again = wakeful("migrate", "down", "--steps", "1", "--yes", dsn=dsn)
    assert again.stdout == "The schema is at version 0 already.\n"


def test_status_as_json_is_one_document(database: Database) -> None:
    ran = wakeful("migrate", "status", "--json", dsn=database.dsn)
    document = json.loads(ran.stdout)
    assert ran.stderr == ""
    assert document["version"] == document["newest"] == newest_version()
    first = document["migrations"][0]
    assert (first["version"], first["name"], first["state"], first["breaking"]) == (
        1,
        "core",
        "applied",
        False,
    )
    assert first["applied_at"][:2] == "20"


def test_sql_prints_what_would_run_and_changes_nothing(blank_database: Database, database: Database) -> None:
    fresh = wakeful("migrate", "sql", dsn=blank_database.dsn)
    assert fresh.stdout == sql("up")
    with blank_database.connect() as conn:
        assert applied(conn) == ()
    assert wakeful("migrate", "sql", dsn=database.dsn).stdout == "-- Nothing to do.\n"
    back = wakeful("migrate", "sql", "down", "--to", "0", dsn=database.dsn)
    assert back.stdout == sql("down", to=0)


def test_sql_between_two_versions_asks_no_database() -> None:
    ran = wakeful("migrate", "sql", "--from", "0", "--to", "1", dsn="postgresql://nowhere.invalid/d")
    assert ran.stdout == sql("up", 0, 1)


def test_the_dsn_may_stand_before_or_after_the_command(database: Database) -> None:
    for arguments in (
        ["--dsn", database.dsn, "migrate", "status"],
        ["migrate", "status", "--dsn", database.dsn],
    ):
        assert "up to date" in wakeful(*arguments, dsn="postgresql://nowhere.invalid/d").stdout


def test_down_without_a_terminal_wants_a_yes(database: Database) -> None:
    ran = wakeful("migrate", "down", "--to", "0", dsn=database.dsn)
    assert_sentence(ran, 2, "Nobody is there to ask: add --yes.")
    with database.connect() as conn:
        assert len(applied(conn)) == newest_version()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["migrate", "down"], "Say how far: --to N, or --steps N. See `wakeful migrate down --help`."),
        (["migrate", "sql", "down"], "Say how far back: --to N."),
        (["migrate", "up", "--to", "9999"], "--to is 9999, but the migrations go from 0 to"),
        (
            ["migrate", "up", "--to", "x"],
            "'x' is not a valid integer range. See `wakeful migrate up --help`.",
        ),
        (["migrat"], "No such command 'migrat'. Did you mean 'migrate'?"),
        (["frobnicate"], "No such command 'frobnicate'. See `wakeful --help`."),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(database: Database, arguments: list[str], part: str) -> None:
    assert_sentence(wakeful(*arguments, dsn=database.dsn), 2, part)


def test_no_server_and_a_wrong_password_are_told_in_a_sentence(database: Database) -> None:
    away = make_conninfo(database.dsn, port=1)
    assert_sentence(wakeful("migrate", "up", dsn=away), 1, "does not answer. Start it")
    wrong = make_conninfo(database.dsn, password="hunter2")
    ran = wakeful("migrate", "up", dsn=wrong)
    assert_sentence(ran, 1, "refused the password")
    assert "hunter2" not in ran.stderr
    assert_sentence(wakeful("migrate", "up", dsn="mysql://h/d"), 2, "names mysql, not PostgreSQL")


def test_the_traceback_is_shown_on_request(database: Database) -> None:
    ran = wakeful("migrate", "up", dsn=make_conninfo(database.dsn, port=1), WAKEFUL_DEBUG="1")
    assert ran.returncode == 1
    assert "Traceback (most recent call last)" in ran.stderr


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """As in `wakeful migrate sql --from 0 | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [sys.executable, "-c", CONSOLE_SCRIPT, "migrate", "sql", "--from", "0"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(writer)
        _, told = process.communicate(timeout=30)
    assert told == ""
    assert process.returncode == 1


def test_help_and_version_need_no_database() -> None:
    shown = wakeful("--help", dsn="postgresql://nowhere.invalid/d")
    assert shown.returncode == 0
    assert "migrate" in shown.stdout
    assert wakeful("--version").stdout.startswith("wakeful ")
    assert wakeful().returncode == 2


def test_help_imports_no_driver_and_no_command() -> None:
    loaded = "import sys; from wakeful.edges.cli.main import run; run(['--help']); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    modules = set(ran.stdout.split())
    assert "wakeful.edges.cli.main" in modules
    assert not modules & {"psycopg", "msgspec", "rich", "wakeful.edges.cli.migrate", "asyncio"}


def test_a_user_who_may_not_make_a_schema_is_told_what_to_grant(blank_database: Database) -> None:
    role = f"{blank_database.name}_poor"
    with session(blank_database.dsn) as owner:
        owner.execute(f"create role {role} login password 'x'")
        try:
            poor = make_conninfo(blank_database.dsn, user=role, password="x")
            advice = f"Ask its owner to `grant create on database {blank_database.name} to` your role."
            assert_sentence(wakeful("migrate", "up", dsn=poor), 1, advice)
        finally:
            owner.execute(f"drop role {role}")
