"""What a run was taken on: without it the figures mean nothing."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.server import Server


def describe_machine(server: Server) -> dict[str, Any]:
    """Processor, memory, kernel, versions, and the server's settings."""
    return {
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "load_at_start": round(os.getloadavg()[0], 2),
        "postgresql": server.version,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in ("wakeful", "psycopg", "asyncpg", "sqlalchemy", "uvloop")},
        "server_settings": server.settings(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
