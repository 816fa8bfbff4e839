"""A copy of PostgreSQL's programs for an account that cannot reach the originals.

A virtual environment in root's home is closed to everybody else, and stays so: the programs are copied once
to a folder that only root can write, and no mode outside that folder is changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from wakeful.database.embedded.account import Account
from wakeful.database.embedded.binaries import Binaries, version_of
from wakeful.values.errors import EmbeddedServerError

SHELVES = (Path("/var/cache/wakeful"), Path("/var/tmp/wakeful-programs"))
PARTS = ("bin", "lib", "share")


def binaries_for(account: Account, binaries: Binaries) -> Binaries:
    """The same programs where this account can run them."""
    if account.is_ours or _runs(account, binaries.folder):
        return binaries
    try:
        copied = Binaries(_copy_install(binaries), binaries.version)
    except OSError as error:
        raise _unusable(account, binaries, str(error)) from error
    if not _runs(account, copied.folder):
        raise _unusable(account, binaries, f"not even the copy in {copied.folder} runs")
    return copied


def _runs(account: Account, folder: Path) -> bool:
    try:
        version_of(folder, account)
    except (OSError, subprocess.SubprocessError, ValueError):
        return False
    return True


def _copy_install(binaries: Binaries) -> Path:
    """The copy's `bin`; it appears whole, by a rename, and is made once for each original."""
    shelf = next((path for path in SHELVES if _trusted(path)), None)
    if shelf is None:
        raise OSError(f"none of {', '.join(map(str, SHELVES))} can be used")
    install = binaries.folder.parent
    folder = shelf / f"postgres-{binaries.version}-{_fingerprint(binaries.folder)}"
    if not folder.is_dir():
        draft = Path(tempfile.mkdtemp(dir=shelf))
        _fill(draft, install)
        try:
            draft.rename(folder)
        except OSError:
            # Another starter was quicker: its copy is the same.
            shutil.rmtree(draft)
    return folder / install.parent.name / install.name / "bin"


def _fill(draft: Path, install: Path) -> None:
    """Copy what runs a server; a wheel keeps its shared libraries beside the package, at `<package>.libs`."""
    package = install.parent
    for part in PARTS:
        if (install / part).is_dir():
            unused = shutil.ignore_patterns("*.a")
            shutil.copytree(install / part, draft / package.name / install.name / part, ignore=unused)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, draft / libraries.name)
    for folder, _, files in os.walk(draft):
        Path(folder).chmod(0o755)
        for file in (Path(folder) / name for name in files):
            file.chmod(0o755 if file.stat().st_mode & stat.S_IXUSR else 0o644)


def _trusted(shelf: Path) -> bool:
    """Whether the folder is there, or can be made, and nobody but root can put anything into it."""
    try:
        with suppress(FileExistsError):
            shelf.mkdir()
            shelf.chmod(0o755)
        found = shelf.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and not found.st_mode & 0o022


def _fingerprint(folder: Path) -> str:
    found = (folder / "postgres").stat()
    return hashlib.sha256(f"{folder}:{found.st_mtime_ns}:{found.st_size}".encode()).hexdigest()[:12]


def _unusable(account: Account, binaries: Binaries, problem: str) -> EmbeddedServerError:
    return EmbeddedServerError(
        f"The user {account.name} cannot run PostgreSQL's programs in {binaries.folder} ({problem}): "
        "run as a normal user, or set WAKEFUL_DSN to use a server that is already there."
    )
