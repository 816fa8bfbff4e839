"""Whatever is killed, committed work is there at the next start; and nobody else's process is touched."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.db.embedded_client import FAST, Client, bystander, runs, wait_until
from wakeful.database import embedded


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One data directory for the crashes of a worker process: they are survived, after all."""
    folder = tmp_path_factory.mktemp("crashes")
    yield folder
    embedded.reset(folder)


@pytest.mark.parametrize(
    "victims", [["client"], ["supervisor"], ["postgres"], ["client", "supervisor", "postgres"]], ids="+".join
)
def test_committed_rows_survive_a_kill(directory: Path, victims: list[str]) -> None:
    client = Client(directory)
    before = _insert(client.dsn)
    pids = {"client": client.process.pid, "supervisor": client.supervisor_pid, "postgres": client.pid}
    for victim in victims:
        os.kill(pids[victim], signal.SIGKILL)
    with Client(directory) as following:
        assert following.dsn == client.dsn
        assert _count(following.dsn) == before
        assert following.pid == client.pid or not runs(client.pid)
    client.kill()


def test_a_transaction_that_is_open_when_postgres_dies_holds_nothing_up(directory: Path) -> None:
    """A backend of the dead server lives on until it looks up: the next server waits for it."""
    client = Client(directory)
    before = _insert(client.dsn)
    conn = psycopg.connect(client.dsn)
    conn.execute("insert into kept default values")
    os.kill(client.pid, signal.SIGKILL)
    with Client(directory) as following:
        assert _count(following.dsn) == before
    conn.close()
    client.leave()


def test_postgres_shuts_down_in_order_when_its_supervisor_is_killed(directory: Path) -> None:
    client = Client(directory)
    os.kill(client.supervisor_pid, signal.SIGKILL)
    wait_until(lambda: not runs(client.pid))
    assert "database system is shut down" in (directory / "server.log").read_text().splitlines()[-1]
    client.leave()


def test_a_reused_process_number_is_never_touched(directory: Path) -> None:
    """The lock files and the state file all name a process that is not ours, but of the server's own user."""
    with Client(directory) as client:
        _insert(client.dsn)
        uid = pwd.getpwnam(client.answer()["account"]).pw_uid
        sockets = Path(client.answer()["socket_directory"])
    wait_until(lambda: not runs(client.supervisor_pid))
    with bystander(uid) as other:
        _claim(directory, other)
        assert embedded.status(directory) is None
        assert not embedded.stop(directory)
        sockets.mkdir(mode=0o700)
        os.chown(sockets, uid, uid)
        (sockets / f".s.PGSQL.{client.answer()['port']}.lock").write_text(f"{other}\n")
        with Client(directory) as following:
            assert following.dsn == client.dsn
            assert _count(following.dsn)


def test_a_zombie_does_not_count_as_the_last_server(directory: Path) -> None:
    Client(directory).leave()
    with subprocess.Popen(["true"]) as zombie:
        wait_until(lambda: not runs(zombie.pid))
        _claim(directory, zombie.pid)
        with Client(directory) as client:
            assert _insert(client.dsn)


def test_a_server_started_by_other_means_on_our_data_is_not_doubled(directory: Path) -> None:
    with Client(directory) as client:
        facts = client.answer()
    wait_until(lambda: not runs(client.supervisor_pid))
    owner = pwd.getpwnam(facts["account"])
    folder = os.open(directory / "postgres", os.O_RDONLY)
    options = ("listen_addresses=", "unix_socket_directories=/tmp", f"port={facts['port']}")
    with subprocess.Popen(
        [
            f"{facts['binaries']}/postgres",
            *("-D", f"/proc/self/fd/{folder}"),
            *(part for option in options for part in ("-c", option)),
        ],
        stderr=subprocess.DEVNULL,
        pass_fds=(folder,),
        user=owner.pw_uid,
        group=owner.pw_gid,
    ) as foreign:
        try:
            lock_file = directory / "postgres" / "postmaster.pid"
            wait_until(lambda: lock_file.exists() and "ready" in lock_file.read_text())
            with Client(directory) as refused:
                assert f"did not start (process {foreign.pid})" in refused.error
        finally:
            foreign.send_signal(signal.SIGINT)
    os.close(folder)


def test_an_unfinished_data_directory_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "postgres.unfinished" / "base").mkdir(parents=True)
    server = embedded.ensure(tmp_path, settings=FAST, linger_seconds=0)
    assert _insert(server.dsn)
    assert not (tmp_path / "postgres.unfinished").exists()
    assert embedded.stop(tmp_path)
    embedded.release(tmp_path)


def _claim(directory: Path, pid: int) -> None:
    """Let all that names the last server's processes name this one, its true start included."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    state = json.loads((directory / "server.json").read_text())
    state["supervisor"] = state["postgres"] = {"pid": pid, "started": int(stat[19])}
    (directory / "server.json").write_text(json.dumps(state))
    (directory / "postgres" / "postmaster.pid").write_text(f"{pid}\n{directory}\n1\n1\n\n\n1 1\nready\n")


def _insert(dsn: str) -> int:
    with psycopg.connect(dsn) as conn:
        conn.execute("create table if not exists kept (id bigint generated always as identity)")
        conn.execute("insert into kept select from generate_series(1, 100)")
    return _count(dsn)


def _count(dsn: str) -> int:
    with psycopg.connect(dsn) as conn:
        row = conn.execute("select count(*) from kept").fetchone()
    assert row is not None
    return int(row[0])
