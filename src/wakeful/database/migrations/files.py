"""The migrations that this code brings: `NNNN_name.up.sql`, `NNNN_name.down.sql`, numbered without gaps."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wakeful.values.errors import MigrationError

SQL = Path(__file__).resolve().parents[2] / "sql"
SHIPPED = SQL / "migrations"

_NAME = re.compile(r"^(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.up\.sql$")
_BREAKING = re.compile(r"^--\s*breaking:\s*yes\s*$", re.IGNORECASE | re.MULTILINE)
_HEADER = re.compile(r"\A(?:--[^\n]*\n|\s*\n)*")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered change, both ways. `down` is None where there is no way back."""

    version: int
    name: str
    up: str
    down: str | None
    checksum: str
    breaking: bool

    @property
    def label(self) -> str:
        """`0001_core`: how files, messages and people name it."""
        return f"{self.version:04d}_{self.name}"


@cache
def read_migrations(directory: Path = SHIPPED) -> tuple[Migration, ...]:
    """All migrations in the directory, oldest first; read once a process."""
    names = sorted(path.name for path in directory.iterdir())
    found = [_read(directory, match) for name in names if (match := _NAME.match(name))]
    for expected, migration in enumerate(found, start=1):
        if migration.version != expected:
            raise MigrationError(
                f"Migration {migration.label} should have number {expected:04d}. Rename its files.",
                migration=migration.label,
            )
    return tuple(found)


@cache
def read_shape() -> Mapping[str, str]:
    """Columns, constraints, indexes and triggers that all migrations together give, as a server defines them."""
    shape: Mapping[str, str] = json.loads((SQL / "shape.json").read_text(encoding="utf-8"))
    return shape


def newest_version(directory: Path = SHIPPED) -> int:
    """The schema version that all migrations together give; 0 with none."""
    return max((migration.version for migration in read_migrations(directory)), default=0)


def _read(directory: Path, match: re.Match[str]) -> Migration:
    up = (directory / match[0]).read_text(encoding="utf-8")
    down = directory / f"{match['version']}_{match['name']}.down.sql"
    return Migration(
        version=int(match["version"]),
        name=match["name"],
        up=up,
        down=down.read_text(encoding="utf-8") if down.exists() else None,
        checksum=checksum(up),
        breaking=_is_breaking(up),
    )


def checksum(text: str) -> str:
    """A fingerprint that does not change with the line ends of a checkout."""
    return hashlib.sha256(text.replace("\r\n", "\n").encode()).hexdigest()


def _is_breaking(text: str) -> bool:
    header = _HEADER.match(text)
    return bool(header and _BREAKING.search(header[0]))
