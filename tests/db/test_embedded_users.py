"""One server, many processes: it is there while anybody needs it, and not a moment longer than that."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import psycopg

from tests.db.embedded_client import FAST, PATH, Client, runs, wait_until
from wakeful.database import embedded


def test_two_processes_share_a_server_and_it_outlives_the_first(tmp_path: Path) -> None:
    first = Client(tmp_path)
    with Client(tmp_path) as second:
        assert (second.pid, second.dsn) == (first.pid, first.dsn)
        first.leave()
        assert _answers(second.dsn)
        third = Client(tmp_path)
        assert third.pid == second.pid
        third.kill()
        assert _answers(second.dsn)
    wait_until(lambda: not runs(second.pid) and not runs(second.supervisor_pid))
    assert embedded.status(tmp_path) is None


def test_four_processes_that_start_at_once_get_one_server(tmp_path: Path) -> None:
    clients = [Client(tmp_path) for _ in range(4)]
    assert len({(client.pid, client.supervisor_pid, client.dsn) for client in clients}) == 1
    for client in clients:
        client.leave()
    wait_until(lambda: not runs(clients[0].supervisor_pid))


def test_a_starter_killed_half_way_leaves_a_start_that_others_join(tmp_path: Path) -> None:
    first = Client(tmp_path, linger_seconds=20)
    wait_until(lambda: (tmp_path / "postgres.unfinished").exists())
    first.kill()
    with Client(tmp_path) as second:
        assert _answers(second.dsn)
        assert "unfinished" not in str(list(tmp_path.iterdir()))
    assert embedded.stop(tmp_path)


def test_the_server_waits_a_while_for_another_user(tmp_path: Path) -> None:
    with Client(tmp_path, linger_seconds=20) as first:
        pass
    with Client(tmp_path) as second:
        assert second.pid == first.pid
    assert embedded.stop(tmp_path)
    wait_until(lambda: not runs(second.supervisor_pid))


def test_a_pinned_server_stays_until_it_is_stopped(tmp_path: Path) -> None:
    with Client(tmp_path) as first, Client(tmp_path, pinned=True) as second:
        assert second.answer()["pinned"]
        assert second.pid == first.pid
    # The supervisor has seen its last user leave once it waits for signals alone.
    wait_until(lambda: len(_threads(first.supervisor_pid)) == 1)
    assert _answers(first.dsn)
    assert embedded.stop(tmp_path)
    assert not runs(first.pid)
    assert not embedded.stop(tmp_path)


def test_a_waiting_supervisor_never_wakes(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        pid = client.supervisor_pid
        wait_until(lambda: len(_threads(pid)) == 2 and all("State:\tS" in text for text in _threads(pid)))
        before = _switches(pid)
        time.sleep(0.4)
        assert _switches(pid) == before


def test_a_process_may_let_go_before_it_ends(tmp_path: Path) -> None:
    server = embedded.ensure(tmp_path, settings=FAST, linger_seconds=0)
    assert embedded.ensure(tmp_path) == server
    found = embedded.status(tmp_path)
    assert found is not None
    assert (found.dsn, found.pid, found.version) == (server.dsn, server.pid, server.version)
    assert _answers(server.dsn)
    assert _answers(server.socket_dsn)
    embedded.release(tmp_path)
    embedded.release(tmp_path)
    wait_until(lambda: not runs(found.supervisor_pid))


def test_a_directory_moved_away_by_hand_is_begun_anew(tmp_path: Path) -> None:
    """The process is a user of the new server then; the old one goes on where its data is."""
    directory = tmp_path / "server"
    old = embedded.ensure(directory, settings=FAST)
    directory.rename(tmp_path / "moved")
    server = embedded.ensure(directory, settings=FAST, linger_seconds=0)
    assert server.pid != old.pid
    found = embedded.status(directory)
    assert found is not None
    wait_until(lambda: len(_threads(found.supervisor_pid)) == 2)
    assert _answers(server.dsn)
    embedded.release(directory)
    wait_until(lambda: not runs(server.pid))
    assert _answers(old.dsn)
    assert embedded.stop(tmp_path / "moved")


def test_a_forked_child_keeps_the_server(tmp_path: Path) -> None:
    """As in a worker that forks its processes, and whose parent then dies."""
    program, gate = tmp_path / "forks.py", tmp_path / "gate"
    program.write_text(
        "import os, sys\n"
        "from tests.db.embedded_client import main\n"
        "main()\n"
        "if os.fork() == 0:\n"
        "    for stream in (0, 1, 2): os.close(stream)\n"
        "    open(os.environ['GATE']).read()\n"
        "os._exit(0)\n"
    )
    os.mkfifo(gate)
    client = Client(tmp_path / "server", program=program, env={"PYTHONPATH": _paths(), "GATE": str(gate)})
    assert _answers(client.dsn)
    client.leave()
    with gate.open("w"):
        assert _answers(client.dsn)
    wait_until(lambda: not runs(client.pid))


def _paths() -> str:
    return f"{Path(__file__).parents[2]}{os.pathsep}{PATH}"


def _answers(dsn: str) -> bool:
    with psycopg.connect(dsn) as conn:
        return conn.execute("select true").fetchone() == (True,)


def _threads(pid: int) -> list[str]:
    texts: list[str] = []
    for path in Path(f"/proc/{pid}/task").glob("*/status"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ends as we look
            texts.append(path.read_text())
    return texts


def _switches(pid: int) -> list[str]:
    lines = [line for text in _threads(pid) for line in text.splitlines()]
    return [line for line in lines if "ctxt_switches" in line]
