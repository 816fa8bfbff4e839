"""The repository's own files, and what the tidy checks read of them."""

import ast
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "wakeful"
SCHEMA = SOURCE / "sql" / "schema"
MIGRATIONS = SOURCE / "sql" / "migrations"


@cache
def files(*suffixes: str) -> list[Path]:
    """Every file that is, or could be, committed; only those with one of the suffixes, if any is given."""
    listed = _listed_by_git() or list(_walked(ROOT))
    return sorted(path for path in listed if path.is_file() and (not suffixes or path.suffix in suffixes))


def below(folder: Path, *suffixes: str) -> list[Path]:
    """Those of the files that are in the folder, however deep."""
    return [path for path in files(*suffixes) if path.is_relative_to(folder)]


def lines(path: Path) -> Iterator[tuple[str, str]]:
    """Each line of a text file behind its place, `path:number`; nothing of a binary one."""
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        return
    for number, line in enumerate(text.splitlines(), start=1):
        yield place(path, number), line


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The syntax tree of a Python file, flattened; read once for all rules."""
    return list(ast.walk(ast.parse(path.read_text("utf-8"), filename=str(path))))


def place(path: Path, line: int | None = None) -> str:
    """Where a problem is, as editors and terminals link it."""
    where = path.relative_to(ROOT).as_posix()
    return f"{where}:{line}" if line else where


def _listed_by_git() -> list[Path]:
    """What git knows or would add; nothing in an unpacked archive, or where git refuses the folder."""
    if not (ROOT / ".git").exists():
        return []
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return [ROOT / os.fsdecode(name) for name in answer.stdout.split(b"\0") if name]


def _walked(folder: Path) -> Iterator[Path]:
    """The same without git: what is made by running things is in dotted folders or has a known name."""
    for path in folder.iterdir():
        made = path.name.startswith(".") and path.name not in {".ci", ".gitignore"}
        if made or path.name in {"__pycache__", "dist", "node_modules"} or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            yield from _walked(path)
        else:
            yield path
