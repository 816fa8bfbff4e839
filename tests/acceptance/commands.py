"""Commands as processes: `wakeful …` with a database, with or without a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sessions import Session, session
from wakeful.testing import Database

CONSOLE_SCRIPT = "from wakeful.edges.cli.__main__ import main; main()"

Ran = subprocess.CompletedProcess[str]


class Commands:
    """`wakeful` on one database."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def run(self, *arguments: str, stdin: str = "") -> Ran:
        """The command's exit code, stdout and stderr."""
        return subprocess.run(
            [sys.executable, "-c", CONSOLE_SCRIPT, *arguments],
            env={**os.environ, "WAKEFUL_DSN": self.dsn, "WAKEFUL_ACTOR": "tester"},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def text(self, *arguments: str, stdin: str = "") -> str:
        """What a command that succeeds prints."""
        ran = self.run(*arguments, stdin=stdin)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def json(self, *arguments: str, code: int = 0, stdin: str = "") -> Any:
        """The one document on stdout."""
        ran = self.run(*arguments, "--json", stdin=stdin)
        assert ran.returncode == code, ran.stderr
        return json.loads(ran.stdout)

    def refusal(self, code: int, *arguments: str, stdin: str = "") -> str:
        """The one sentence on stderr of a command that fails; nothing on stdout, no traceback."""
        ran = self.run(*arguments, stdin=stdin)
        assert ran.returncode == code, (ran.returncode, ran.stderr)
        assert ran.stdout == ""
        assert ran.stderr.startswith("wakeful: ")
        assert ran.stderr.count("\n") == 1, ran.stderr
        return ran.stderr

    def terminal(self, *arguments: str, columns: int = 80, typed: str = "") -> tuple[int, str]:
        """Exit code and screen of a command with a terminal of this width."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        command = [sys.executable, "-c", CONSOLE_SCRIPT, *arguments]
        environment = {**os.environ, "WAKEFUL_DSN": self.dsn, "TERM": "xterm", "WAKEFUL_ACTOR": "tester"}
        environment.pop("COLUMNS", None)
        process = subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        os.write(ours, typed.encode())
        screen = b""
        while True:
            try:
                read = os.read(ours, 65_536)
            except OSError:  # Linux's way to say that the other end is closed.
                break
            if not read:
                break
            screen += read
        os.close(ours)
        return process.wait(60), screen.decode().replace("\r\n", "\n")


@pytest.fixture
def wakeful(database: Database) -> Commands:
    return Commands(database.dsn)


@pytest.fixture
def db(database: Database) -> Iterator[Session]:
    with session(database.dsn) as conn:
        yield conn
