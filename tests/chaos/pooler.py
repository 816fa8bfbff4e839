"""PgBouncer in transaction mode, between everyone and the database."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.chaos import tools
from tests.worker.processes import until


def free_port() -> int:
    """A port that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


def no_pooler() -> str | None:
    """Why there can be none on this machine."""
    return None if tools.find("pgbouncer") else "pgbouncer is not to be had"


class Pooler:
    """`dsn` is the way over it. `point_at` sends it to another server, as those do who fail over."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self._settings = folder / "pgbouncer.ini"
        self._port = free_port()
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=self._port, target_session_attrs="any")
        self._write(dsn)
        program = tools.find("pgbouncer")
        assert program is not None
        # It refuses to run as root; whoever owns nothing will do.
        account = ["-u", "nobody"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(
            [str(program), "-q", *account, str(self._settings)],
            env={**os.environ, "LD_LIBRARY_PATH": tools.libraries()},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def point_at(self, dsn: str) -> None:
        """From here on, this server."""
        self._write(dsn)
        self.process.send_signal(signal.SIGHUP)

    def answers(self) -> bool:
        """Whether one can reach the server over it."""
        try:
            psycopg.connect(self.dsn).close()
        except psycopg.OperationalError:
            return False
        return True

    def _write(self, dsn: str) -> None:
        to = conninfo_to_dict(dsn)
        self._settings.write_text(
            "[databases]\n"
            f"{to['dbname']} = host={to['host']} port={to['port']} dbname={to['dbname']} "
            f"user={to['user']} password='{to.get('password', '')}'\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self._port}\nauth_type = any\npool_mode = transaction\n"
            "default_pool_size = 10\nmax_client_conn = 200\nunix_socket_dir =\nserver_login_retry = 1\n"
            "ignore_startup_parameters = extra_float_digits\n"
        )
        self._settings.chmod(0o644)


@contextmanager
def pooled(folder: Path, dsn: str) -> Iterator[Pooler]:
    """One that takes connections; gone at the end."""
    pooler = Pooler(folder, dsn)
    try:
        until(pooler.answers)
        yield pooler
    finally:
        pooler.process.kill()
        pooler.process.wait()
