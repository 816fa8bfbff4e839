"""The primary dies for good, and a streaming standby takes its place."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.chaos.faults.fault import Fault
from tests.chaos.faults.outside import free_port
from tests.chaos.stage import Stage
from tests.sessions import scalar
from tests.worker.processes import until
from wakeful.database.embedded.account import choose_account
from wakeful.database.embedded.binaries import find_binaries
from wakeful.database.embedded.copies import binaries_for


class Failover(Fault):
    """Synchronous: what was acknowledged is on both. Clients have both addresses, and take the one that writes."""

    name = "failover"
    says = "kill -9 of the primary under load, and the synchronous standby promoted in its place"
    pause = (3.0, 6.0)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._folder = stage.history.producers.parent / "standby"
        self._process: subprocess.Popen[bytes] | None = None
        self._standby = ""

    def prepare(self) -> None:
        """A copy of the primary that follows it, before anyone works."""
        place = self.stage.server.cluster
        with (place / "pg_hba.conf").open("a") as rules, self.stage.session() as db:
            rules.write("\nhost replication all 127.0.0.1/32 scram-sha-256\n")
            rules.flush()
            db.execute("select pg_reload_conf()")
        account = choose_account(place)
        programs = binaries_for(account, find_binaries(None)).folder
        self._folder.mkdir(mode=0o700)
        account.give(self._folder)
        self._copy(programs, **account.switch())
        port = free_port()
        self._standby = make_conninfo(self.stage.dsn, host="127.0.0.1", port=port)
        self._process = subprocess.Popen(
            [programs / "postgres", "-D", self._folder, "-p", str(port), "-k", "", "-c", "listen_addresses=127.0.0.1"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            **account.switch(),
        )
        until(self._follows, 60)
        # Only once it follows: until then, no commit would be answered.
        with self.stage.session() as db:
            db.execute("alter system set synchronous_standby_names = '*'")
            db.execute("select pg_reload_conf()")
        primary = conninfo_to_dict(self.stage.dsn)
        both = make_conninfo(
            self.stage.dsn,
            host=f"{primary['host']},127.0.0.1",
            port=f"{primary['port']},{port}",
            target_session_attrs="read-write",
        )
        self.stage.worker_dsn = self.stage.load_dsn = both

    def inject(self) -> int:
        """Once: the primary does not come back."""
        self.stage.server.kill()
        self.stage.dsn = self._standby
        with self.stage.session() as db:
            assert scalar(db, "select pg_promote()")
        self.over = True
        return 1

    def end(self) -> None:
        """The standby goes too."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)

    def _copy(self, programs: Path, **account: object) -> None:
        made = subprocess.run(
            [programs / "pg_basebackup", "-d", self.stage.dsn, "-D", self._folder, "-R", "-X", "stream", "-c", "fast"],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            **account,  # type: ignore[call-overload]
        )
        assert made.returncode == 0, made.stderr

    def _follows(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the standby does not start"
        with suppress(psycopg.OperationalError), self.stage.session() as db:
            return bool(scalar(db, "select count(*) from pg_stat_replication where state = 'streaming'"))
        return False
