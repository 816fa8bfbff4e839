"""A private Redis, from the machine or unpacked from Debian's packages without installing them."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.environments.installed import Installed, NotInstalled, kept, run

SECONDS_TO_START = 10


def make_redis(folder: Path) -> Installed:
    """The server's program; NotInstalled where there is neither Redis nor apt."""
    return kept(folder, ["redis-server"], lambda: _machines_own() or _unpack(folder))


@contextmanager
def running_redis(folder: Path) -> Iterator[str]:
    """Its address, while it runs: append-only file, synced every second, which is Redis's advice for queues."""
    program = make_redis(folder)
    port = _free_port()
    arguments = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
    durability = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
    with (folder / "server.log").open("ab") as log:
        server = subprocess.Popen(
            [*program.command, *arguments, *durability],
            stdout=log,
            stderr=log,
            env={**os.environ, **program.environment},
        )
    try:
        _wait(server, port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(SECONDS_TO_START)


def flush(address: str) -> None:
    """Forget all keys."""
    port = int(re.search(r":(\d+)/", address)[1])  # type: ignore[index]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"FLUSHALL\r\n")
        connection.recv(100)


def _machines_own() -> Installed | None:
    found = shutil.which("redis-server")
    return Installed((found,), {"redis": _version([found], {})}, {}) if found else None


def _unpack(folder: Path) -> Installed:
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise NotInstalled("needs Redis: there is none on this machine, and no apt to get it")
    needs = run(["apt-cache", "depends", "--recurse", "--no-suggests", "--no-recommends", "--no-conflicts",
                 "--no-breaks", "--no-replaces", "--no-enhances", "redis-server"])  # fmt: skip
    wanted = re.findall(r"^((?:redis-|lib(?:lzf|lua|jemalloc|hiredis|atomic))\S*)$", needs, re.MULTILINE)
    run(["apt-get", "download", *sorted(set(wanted))], cwd=folder)
    for package in folder.glob("*.deb"):
        run(["dpkg-deb", "--extract", package, folder / "root"])
    found = next((folder / "root").glob("usr/bin/redis-server"), None)
    if found is None:
        raise NotInstalled("Debian's redis package has no redis-server")
    environment = {"LD_LIBRARY_PATH": ":".join(str(path) for path in (folder / "root/usr/lib").glob("*-linux-*"))}
    return Installed((str(found),), {"redis": _version([str(found)], environment)}, environment)


def _version(command: list[str], environment: dict[str, str]) -> str:
    told = run([*command, "--version"], env={**os.environ, **environment})
    found = re.search(r"v=(\S+)", told)
    return found[1] if found else "unknown"


def _wait(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise NotInstalled("Redis did not start")


def _free_port() -> int:
    with socket.socket() as any_free:
        any_free.bind(("127.0.0.1", 0))
        return int(any_free.getsockname()[1])
