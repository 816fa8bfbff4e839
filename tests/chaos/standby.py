"""A streaming standby of a stage's server."""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from tests.chaos.pooler import free_port
from tests.chaos.stage import Stage
from tests.sessions import scalar
from tests.worker.processes import until
from wakeful.database.embedded.account import choose_account
from wakeful.database.embedded.binaries import find_binaries
from wakeful.database.embedded.copies import binaries_for


class Standby:
    """A copy that follows its primary over `upstream`, until it is promoted."""

    def __init__(self, stage: Stage, upstream: str) -> None:
        self._stage = stage
        self._folder = stage.history.producers.parent / "standby"
        self.port = free_port()
        self.dsn = make_conninfo(stage.dsn, host="127.0.0.1", port=self.port)
        place = stage.server.cluster
        with (place / "pg_hba.conf").open("a") as rules, stage.session() as db:
            rules.write("\nhost replication all 127.0.0.1/32 scram-sha-256\n")
            rules.flush()
            db.execute("select pg_reload_conf()")
        account = choose_account(place)
        programs = binaries_for(account, find_binaries(None)).folder
        self._folder.mkdir(mode=0o700)
        account.give(self._folder)
        copy(programs, upstream, self._folder, **account.switch())
        where = ("-D", str(self._folder), "-p", str(self.port), "-k", "", "-c", "listen_addresses=127.0.0.1")
        self.process = subprocess.Popen(
            [str(programs / "postgres"), *where],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            **account.switch(),
        )
        until(self._follows, 60)

    def promote(self) -> None:
        """Returns when it writes."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            assert conn.execute("select pg_promote()").fetchone() == (True,)

    def end(self) -> None:
        """Stop it."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)

    def _follows(self) -> bool:
        assert self.process.poll() is None, "the standby does not start"
        with suppress(psycopg.OperationalError), self._stage.session() as db:
            return bool(scalar(db, "select count(*) from pg_stat_replication where state = 'streaming'"))
        return False


def copy(programs: Path, upstream: str, folder: Path, **account: object) -> None:
    """A base backup that knows whom to follow."""
    made = subprocess.run(
        [programs / "pg_basebackup", "-d", upstream, "-D", folder, "-R", "-X", "stream", "-c", "fast"],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **account,  # type: ignore[call-overload]
    )
    assert made.returncode == 0, made.stderr
