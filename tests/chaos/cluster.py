"""A Patroni cluster of two nodes, with etcd beside it; everything on loopback, below one folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.chaos import tools
from tests.chaos.pooler import free_port
from tests.chaos.wire import wire_to
from tests.worker.processes import until
from wakeful.database.embedded.account import choose_account
from wakeful.database.embedded.binaries import find_binaries
from wakeful.database.embedded.copies import binaries_for

# The least that Patroni takes; it must be no less than a round and two retries.
TTL_SECONDS = 20
PATIENCE = 120.0
PASSWORD = "loopback"
FOLLOWER = "follower"


def no_cluster() -> str | None:
    """Why there can be none on this machine."""
    if tools.find("etcd") is None:
        return "etcd is not to be had (Debian's etcd-server)"
    return None if tools.patroni() else "Patroni is not to be had from PyPI"


class Node:
    """One PostgreSQL and the Patroni that minds it. Others of the cluster reach it over a wire."""

    def __init__(self, name: str, folder: Path, opened: ExitStack) -> None:
        self.name = name
        self.folder = folder / name
        self.port, self.rest = free_port(), free_port()
        self.wire = opened.enter_context(wire_to(f"host=127.0.0.1 port={self.port}"))
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What its Patroni says."""
        return self.folder / "log"

    @property
    def postmaster(self) -> int:
        """The pid of the server."""
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def role(self) -> str:
        """What Patroni says it is; empty when it says nothing."""
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.rest}/patroni", timeout=2) as answer:
            return str(json.load(answer).get("role", ""))
        return ""

    def kill(self) -> None:
        """Patroni first: it would start the server again."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        os.kill(self.postmaster, signal.SIGKILL)


class Cluster:
    """Two nodes; `dsn` names both, and takes the one that writes."""

    def __init__(self, folder: Path, synchronous: bool) -> None:
        self._folder = folder / "patroni"
        self._account = choose_account(self._folder)
        self._synchronous = synchronous
        self._programs = binaries_for(self._account, find_binaries(None)).folder
        self._etcd_port = free_port()
        self._etcd: subprocess.Popen[bytes] | None = None
        self._opened = ExitStack()
        self.nodes = [Node(name, self._folder, self._opened) for name in ("node_a", "node_b")]
        self.dsn = make_conninfo(
            host="127.0.0.1,127.0.0.1",
            port=",".join(str(node.port) for node in self.nodes),
            user="wakeful",
            password=PASSWORD,
            dbname="postgres",
            target_session_attrs="read-write",
        )

    def start(self) -> None:
        """Returns when one leads and the other follows."""
        # Wherever the project is, the server's account may have no way to it.
        found = tools.patroni()
        assert found is not None
        shutil.copytree(found, self._folder / "library")
        self._python = self._interpreter()
        for place in (self._folder, *(node.folder for node in self.nodes), self._folder / "etcd"):
            place.mkdir(exist_ok=True, mode=0o755)
            self._account.give(place)
        self._start_etcd()
        self.start_node(self.nodes[0])
        self._wait(lambda: self.leader() is not None)
        self.start_node(self.nodes[1])
        self.whole()

    def leader(self) -> Node | None:
        """The node that writes, if there is one."""
        return next((node for node in self.nodes if node.role() in ("primary", "master")), None)

    def whole(self) -> None:
        """Return once one leads, and the other follows as closely as it should."""
        self._wait(self._is_whole)

    def replace(self, node: Node) -> None:
        """The machine is gone with its disk, and an empty one takes its place."""
        shutil.rmtree(node.folder / "data")
        self.start_node(node)

    def start_node(self, node: Node) -> None:
        """Start its Patroni, which does the rest."""
        settings = node.folder / "patroni.json"
        settings.write_text(json.dumps(self._settings(node)))
        with node.log.open("ab") as log:
            node.process = subprocess.Popen(
                [str(self._python), "-m", "patroni", str(settings)],
                env={
                    "PATH": f"{self._programs}:/usr/bin:/bin",
                    "PYTHONPATH": str(self._folder / "library"),
                    "LD_LIBRARY_PATH": str(self._python.parents[1] / "lib"),
                },
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._account.switch(),
            )

    def end(self) -> None:
        """Nothing of it is left."""
        for node in self.nodes:
            if node.process is not None:
                with suppress(OSError, ValueError):
                    node.kill()
        if self._etcd is not None:
            self._etcd.kill()
            self._etcd.wait()
        self._opened.close()

    def _wait(self, condition: Callable[[], bool]) -> None:
        try:
            until(condition, PATIENCE)
        except AssertionError:
            said = [line for node in self.nodes if node.log.exists() for line in node.log.read_text().splitlines()[-8:]]
            raise AssertionError("Patroni does not come to it:\n" + "\n".join(said)) from None

    def _is_whole(self) -> bool:
        leader = self.leader()
        if leader is None:
            return False
        with suppress(psycopg.OperationalError), psycopg.connect(self.dsn) as conn:
            found = conn.execute("select sync_state from pg_stat_replication where state = 'streaming'").fetchall()
            return found == [("sync",)] if self._synchronous else len(found) == 1
        return False

    def _interpreter(self) -> Path:
        """This Python, where the account can run it: root's home is closed to everybody else."""
        if self._account.is_ours:
            return Path(sys.executable)
        place = self._folder / "python"
        place.mkdir()
        subprocess.run(["mount", "--bind", sys.base_prefix, place], check=True)
        self._opened.callback(lambda: subprocess.run(["umount", "-l", place], check=True))
        return place / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"

    def _start_etcd(self) -> None:
        program = tools.find("etcd")
        assert program is not None
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{free_port()}"
        urls = ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
        peers = ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        with (self._folder / "etcd.log").open("wb") as log:
            self._etcd = subprocess.Popen(
                [str(program), "--data-dir", str(self._folder / "etcd"), *urls, *peers],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._account.switch(),
            )

    def _settings(self, node: Node) -> dict[str, Any]:
        logins = {
            "superuser": {"username": "wakeful", "password": PASSWORD},
            "replication": {"username": FOLLOWER, "password": PASSWORD},
        }
        access = ["host all all 127.0.0.1/32 scram-sha-256", "host replication all 127.0.0.1/32 scram-sha-256"]
        server = {
            "listen": f"127.0.0.1:{node.port}",
            "connect_address": "{host}:{port}".format_map(conninfo_to_dict(node.wire.dsn)),
            "data_dir": str(node.folder / "data"),
            "bin_dir": str(self._programs),
            # Its default is in the account's home, where two clusters would write over each other's.
            "pgpass": str(node.folder / "pgpass"),
            "authentication": logins,
            "pg_hba": access,
            "parameters": {"unix_socket_directories": "", "fsync": "off"},
        }
        agreed = {
            "ttl": TTL_SECONDS,
            "loop_wait": 3,
            "retry_timeout": 5,
            "maximum_lag_on_failover": 1 << 30,
            "synchronous_mode": self._synchronous,
            "postgresql": {"parameters": {"max_connections": "60"}},
        }
        return {
            "scope": "wakeful",
            "name": node.name,
            "restapi": {"listen": f"127.0.0.1:{node.rest}", "connect_address": f"127.0.0.1:{node.rest}"},
            "etcd3": {"hosts": [f"127.0.0.1:{self._etcd_port}"]},
            "bootstrap": {"dcs": agreed, "initdb": [{"encoding": "UTF8"}, "data-checksums"]},
            "postgresql": server,
        }
