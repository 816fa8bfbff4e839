"""What holds for every command: instant help, one sentence for whatever is wrong with the database."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest
from psycopg.conninfo import make_conninfo

from tests.acceptance.commands import CONSOLE_SCRIPT, Commands
from tests.sessions import Session, session
from wakeful.edges.cli.main import COMMANDS
from wakeful.testing import Database

ASKING = [["stats"], ["jobs", "list"], ["dead", "list"], ["queues", "list"], ["workers", "list"], ["enqueue", "t"]]


def cpu_seconds(*arguments: str) -> float:
    """CPU time of a Python process, the least of five."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(times)


def test_help_is_instant() -> None:
    bare = cpu_seconds("-c", "import click, importlib.metadata")
    assert cpu_seconds("-c", CONSOLE_SCRIPT, "--help") < bare + 0.15


def test_help_imports_neither_a_command_nor_the_driver() -> None:
    code = (
        "import sys; from wakeful.edges.cli.main import run; run(['--help']);"
        "print([name for name in sys.modules if name.startswith(('psycopg', 'rich', 'msgspec', 'asyncio'))])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", sorted({"enqueue", "jobs", "dead", "queues", "workers", "stats", "cleanup"}))
def test_every_command_has_help_and_is_in_the_list(wakeful: Commands, command: str) -> None:
    assert COMMANDS[command][1] in wakeful.text("--help")
    assert wakeful.text(command, "--help").startswith(f"Usage: wakeful {command} ")


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_a_database_without_our_schema_is_told(blank_database: Database, command: list[str]) -> None:
    told = Commands(blank_database.dsn).refusal(1, *command)
    assert "has no wakeful schema. Run `wakeful migrate up`." in told


@pytest.mark.parametrize("command", ASKING[:2], ids=" ".join)
def test_a_database_with_a_newer_schema_is_told(wakeful: Commands, db: Session, command: list[str]) -> None:
    db.execute("insert into wakeful.migration (version, name, checksum, breaking) values (99, 'future', 'x', true)")
    assert "Upgrade the wakeful package." in wakeful.refusal(1, *command)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"port": "1"}, "does not answer. Start it, or correct the host and port in the DSN."),
        ({"dbname": "nowhere_at_all"}, "has no such database."),
        ({"user": "nobody_at_all", "password": "x"}, "wakeful: The PostgreSQL server at "),
    ],
)
def test_a_server_that_cannot_be_used_is_told(database: Database, changed: dict[str, str], told: str) -> None:
    refused = Commands(make_conninfo(database.dsn, **changed)).refusal(1, "stats")
    assert told in refused


def test_a_dsn_that_is_none_is_told() -> None:
    assert "names mysql, not PostgreSQL" in Commands("mysql://here/there").refusal(2, "stats")


@pytest.mark.parametrize(
    "command", [["migrate", "up"], ["stats"], ["worker", "shop:app"], ["dev", "shop:app"], ["demo"]]
)
def test_an_empty_dsn_is_no_wish_for_the_embedded_server(wakeful: Commands, command: list[str]) -> None:
    for given in ([*command, "--dsn", ""], ["--dsn", " ", *command]):
        told = wakeful.refusal(2, *given)
        assert "--dsn is empty" in told
        assert "leave it out to use the embedded server" in told


def test_an_empty_variable_is_no_wish_for_the_embedded_server() -> None:
    assert "WAKEFUL_DSN is empty" in Commands("").refusal(2, "migrate", "up")


@pytest.mark.parametrize("module", ["click", "wakeful.edges.cli.main", "wakeful.edges.cli.stats", "psycopg"])
def test_an_interruption_while_modules_are_imported_is_told_in_a_sentence(wakeful: Commands, module: str) -> None:
    program = f"""
import os, signal, sys
from importlib.metadata import entry_points

class Impatient:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

# As in a terminal; what a shell starts in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Impatient())
[script] = entry_points(group="console_scripts", name="wakeful")
script.load()()
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, "stats", "--dsn", wakeful.dsn],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (130, "")
    assert ran.stderr.strip() == "wakeful: Interrupted."


@pytest.mark.parametrize("command", [["schedules", "remove", "nightly"], ["db", "reset"], ["cleanup"]], ids=" ".join)
def test_a_question_that_is_not_answered_or_with_no_changes_nothing(wakeful: Commands, command: list[str]) -> None:
    code, screen = wakeful.terminal(*command, typed="\x04")
    assert (code, "Nobody is there to ask: add --yes." in screen) == (2, True), screen
    code, screen = wakeful.terminal(*command, typed="n\n")
    assert (code, "Nothing was changed." in screen) == (1, True), screen


def test_an_answer_that_takes_too_long_is_given_up(wakeful: Commands, database: Database, db: Session) -> None:
    with session(database.dsn) as other, other.transaction():
        other.execute("lock table wakeful.job in access exclusive mode")
        told = wakeful.refusal(1, "jobs", "list")
    assert "took longer than 5.4 s" in told
    assert "--since" in told
