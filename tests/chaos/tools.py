"""Programs that a fault needs and that are no part of this project: of the machine, or unpacked below .build.

Debian's packages are fetched and unpacked, Patroni comes from PyPI; nothing is installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import psycopg

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".build" / "chaos-tools"
PACKAGES = {
    "pgbouncer": ("pgbouncer", "libc-ares2", "libevent-2.1-7"),
    "libfaketimeMT.so.1": ("libfaketime",),
    "etcd": ("etcd-server",),
}
PATRONI = ("patroni[etcd3]==4.1.0", f"psycopg[binary]=={psycopg.__version__}")


@cache
def find(name: str) -> Path | None:
    """The program or library: installed, or unpacked below .build. None when neither can be had."""
    if installed := shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin"):
        return Path(installed)
    if not any(FOLDER.rglob(name)):
        unpack(PACKAGES[name])
    found = (path for place in (FOLDER, Path("/usr/lib")) for path in place.rglob(name) if path.is_file())
    # A package has more files of its program's name: what starts it, its defaults.
    return next((path for path in found if path.parent.name in ("bin", "sbin") or ".so" in name), None)


@cache
def patroni() -> Path | None:
    """The folder to import Patroni from. None when it cannot be had."""
    folder = FOLDER / "patroni"
    if not (folder / "ready").exists():
        uv = ROOT / ".uv" / "bin" / "uv"
        asked = [str(uv), "pip", "install", "--quiet", "--python", sys.executable, "--target", str(folder), *PATRONI]
        if not uv.exists() or subprocess.run(asked, capture_output=True, check=False).returncode:
            return None
        (folder / "ready").touch()
    return folder


def libraries() -> str:
    """Where unpacked programs find what they are linked to."""
    return ":".join(sorted({str(path.parent) for path in FOLDER.glob("usr/**/*.so*")}))


def unpack(packages: tuple[str, ...]) -> None:
    """Fetch packages and unpack them, without installing anything; quietly, since they may not be there."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    fetched = subprocess.run(
        ["apt-get", "download", *packages], cwd=FOLDER, capture_output=True, timeout=120, check=False
    )
    if fetched.returncode == 0:
        for package in FOLDER.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(FOLDER)], capture_output=True, check=True)
            package.unlink()
