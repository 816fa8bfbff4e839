"""As root the server runs as somebody else, and the machine is not changed for it; as a user, as oneself.

The ordinary user is `nobody`: root starts a process as that user, with an interpreter, our source and the
wheel's programs where everybody can read them, because root's own are often in a closed home. Whoever runs
these tests without being root is the ordinary user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.db.embedded_client import SELF, SOURCE, Client, Person, runs, wait_until
from wakeful.database import embedded
from wakeful.database.embedded.binaries import find_binaries, folder_of_wheel

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture(scope="module")
def public() -> Iterator[Path]:
    """A folder that everybody can enter, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="wakeful-public-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def ordinary(public: Path) -> Person:
    """A user without privileges, who can run Python, our code and PostgreSQL."""
    if os.geteuid() != 0:
        return SELF
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = public / "python" / "bin" / version
    python.parent.mkdir(parents=True)
    shutil.copy2(Path(sys.executable).resolve(), python)
    _mirror(Path(os.__file__).parent, public / "python" / "lib" / version)
    for library in _libraries():
        shutil.copy2(library, public / "python" / "lib")
    _mirror(SOURCE / "wakeful", public / "path" / "wakeful")
    _mirror(Path(__file__).parent, public / "path" / "tests" / "db")
    if wheel := folder_of_wheel():
        package = wheel.parents[1]
        _mirror(package, public / "path" / package.name)
        _mirror(package.with_name(f"{package.name}.libs"), public / "path" / f"{package.name}.libs")
    program = public / "path" / "tests" / "db" / "embedded_client.py"
    return Person(str(python), str(public / "path"), program, pwd.getpwnam("nobody").pw_uid, str(public / "python/lib"))


def _libraries() -> list[Path]:
    """Those of an interpreter that is not all in one file."""
    folder = Path(str(sysconfig.get_config_var("LIBDIR")))
    name = sysconfig.get_config_var("INSTSONAME")
    return [folder / name] if sysconfig.get_config_var("Py_ENABLE_SHARED") else []


def test_an_ordinary_user_has_a_server(ordinary: Person, public: Path) -> None:
    """In a folder of the user's own, whose name has spaces and letters beyond ASCII."""
    home = _home(public, ordinary, "Grüße an Ωmega 日本")
    with Client(home / ".wakeful", person=ordinary) as client:
        assert client.answer()["account"] == pwd.getpwuid(_uid(ordinary)).pw_name
        assert _owner_of_process(client.pid) == _owner_of_process(client.supervisor_pid) == _uid(ordinary)
        assert _answers(client.dsn)
        assert stat.S_IMODE((home / ".wakeful").stat().st_mode) == 0o700
        assert stat.S_IMODE((home / ".wakeful" / "password").stat().st_mode) == 0o600
    wait_until(lambda: not runs(client.supervisor_pid))


def test_a_folder_that_cannot_be_written_is_one_clear_sentence(ordinary: Person, public: Path) -> None:
    closed = public / "closed"
    closed.mkdir(mode=0o555)
    with Client(closed / ".wakeful", person=ordinary) as client:
        assert client.error == (
            f"The folder {closed}/.wakeful cannot be written (Permission denied): choose another with "
            "--directory (WAKEFUL_DIRECTORY), or set WAKEFUL_DSN to use a server that is already there."
        )
    closed.chmod(0o755)


@as_root
def test_root_drops_to_a_user_who_cannot_even_reach_the_folder(tmp_path: Path) -> None:
    """Two folders above the data are closed to that user; they stay so, and no user is made."""
    users = Path("/etc/passwd").read_bytes()
    outer = tmp_path / "closed to others" / "привет"
    outer.mkdir(parents=True)
    outer.parent.chmod(0o700)
    modes = [path.stat().st_mode for path in (*outer.parents, outer)]
    with Client(outer / ".wakeful") as client:
        account = client.answer()["account"]
        assert _owner_of_process(client.pid) == pwd.getpwnam(account).pw_uid != 0
        assert _owner_of_process(client.supervisor_pid) == 0
        assert _answers(client.dsn)
        assert _answers(client.answer()["socket_dsn"])
    assert [path.stat().st_mode for path in (*outer.parents, outer)] == modes
    assert Path("/etc/passwd").read_bytes() == users
    wait_until(lambda: not runs(client.supervisor_pid))


@as_root
def test_programs_in_a_closed_folder_are_copied_once(tmp_path: Path) -> None:
    """As with a virtual environment in root's home."""
    install = find_binaries(None).folder.parent
    package = install.parent
    libraries = package.with_name(f"{package.name}.libs")
    _mirror(install, tmp_path / package.name / install.name)
    if libraries.exists():
        _mirror(libraries, tmp_path / libraries.name)
    tmp_path.chmod(0o700)
    env = {"WAKEFUL_PG_BIN": str(tmp_path / package.name / install.name / "bin")}
    with Client(tmp_path / "first", env=env) as first, Client(tmp_path / "second", env=env) as second:
        copied = Path(first.answer()["binaries"])
        assert second.answer()["binaries"] == str(copied)
        assert not copied.is_relative_to(tmp_path)
        assert _answers(first.dsn)
        assert copied.stat().st_uid == 0
        assert not copied.stat().st_mode & 0o022
    wait_until(lambda: not runs(first.supervisor_pid) and not runs(second.supervisor_pid))
    shutil.rmtree(copied.parents[2])


@as_root
def test_a_folder_of_somebody_else_is_left_alone(ordinary: Person, public: Path) -> None:
    """Root does not take over a user's server, nor a user root's."""
    of_root, of_user = public / "of-root", _home(public, ordinary, "of-user")
    of_root.mkdir(mode=0o755)
    nobody = pwd.getpwnam("nobody").pw_uid
    with Client(of_root, person=ordinary) as refused:
        assert f"belongs to user id 0, and this is user id {nobody}" in refused.error
    with Client(of_user) as refused:
        assert f"belongs to user id {nobody}, and this is user id 0" in refused.error
    assert not list(of_root.iterdir()) + list(of_user.iterdir())


@as_root
def test_another_user_without_the_password_gets_nowhere(tmp_path: Path, ordinary: Person, public: Path) -> None:
    with Client(tmp_path) as client:
        facts = client.answer()
        with pytest.raises(psycopg.OperationalError, match="no password supplied"):
            psycopg.connect(host="127.0.0.1", port=facts["port"], user="wakeful", dbname="wakeful")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(facts["dsn"], password="guessed")
        looks = f"import os; os.listdir({facts['socket_directory']!r})"
        assert "PermissionError" in ordinary.run(["-c", looks]).communicate()[1]
        reads = f"open({str(tmp_path / 'password')!r})"
        assert "PermissionError" in ordinary.run(["-c", reads]).communicate()[1]
    assert embedded.reset(tmp_path)


def _home(public: Path, person: Person, name: str) -> Path:
    home = public / name
    home.mkdir()
    os.chown(home, _uid(person), -1)
    return home


def _uid(person: Person) -> int:
    return os.geteuid() if person.uid is None else person.uid


def _mirror(folder: Path, target: Path) -> None:
    """Copy a tree by links where it can be; what only tests and installers need is left out."""
    unused = shutil.ignore_patterns("__pycache__", "site-packages", "test", "idlelib", "include", "*.a")
    shutil.copytree(folder, target, ignore=unused, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _owner_of_process(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def _answers(dsn: str) -> bool:
    with psycopg.connect(dsn) as conn:
        return conn.execute("select current_user::text").fetchone() == ("wakeful",)
