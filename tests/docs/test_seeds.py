"""The page on the five designs is honest: every feature has a test, which exists and is not skipped."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.snippets import ROOT

PAGE = ROOT / "docs" / "explanation" / "seeds.md"
ROW = re.compile(
    r"^\| (?!---)(?!What it asks)(?P<feature>[^|]+) \| (?P<name>[^|]+) \| (?P<tests>[^|]+) \|$", re.MULTILINE
)
REFERENCE = re.compile(r"`(?P<file>[\w/]+\.py)::(?P<test>[\w:]+)`")
SILENCED = {"skip", "skipif", "xfail"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

ROWS = [(found["feature"].strip(), found["tests"]) for found in ROW.finditer(PAGE.read_text("utf-8"))]


@pytest.mark.parametrize(("feature", "tests"), ROWS, ids=[feature for feature, _ in ROWS])
def test_a_feature_has_a_test_that_exists_and_is_not_skipped(feature: str, tests: str) -> None:
    named = REFERENCE.findall(tests)
    assert named, f"{feature}: name a test"
    for file, test in named:
        assert problem(ROOT / "tests" / file, test) is None, f"{file}::{test} {problem(ROOT / 'tests' / file, test)}"


def test_all_five_documents_are_there() -> None:
    text = PAGE.read_text("utf-8")
    assert [number for number in range(5) if f"(seed 00{number})" not in text] == []
    assert len(ROWS) > 70


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("def test_a(): ...", None),
        ("async def test_a(): ...", None),
        ("class T:\n    def test_a(self): ...", "is not there"),
        ("def test_b(): ...", "is not there"),
        ("@pytest.mark.skip\ndef test_a(): ...", "is skipped"),
        ("@pytest.mark.skipif(True, reason='')\ndef test_a(): ...", "is skipped"),
        ("@pytest.mark.xfail\ndef test_a(): ...", "is skipped"),
        ("def test_a():\n    pytest.skip('later')", "is skipped"),
        ("pytestmark = pytest.mark.skip\ndef test_a(): ...", "is skipped"),
        ("x = pytest.importorskip('x')\ndef test_a(): ...", "is skipped"),
        ("if not x:\n    pytest.skip('x', allow_module_level=True)\ndef test_a(): ...", "is skipped"),
        ("@pytest.fixture\ndef node():\n    pytest.skip('no node')\ndef test_a(node): ...", "is skipped"),
        ("def test_a(): ...\ndef test_b():\n    pytest.skip('later')", None),
    ],
)
def test_what_is_missing_or_skipped_is_found_out(source: str, wrong: str | None, tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(source)
    assert problem(file, "test_a") == wrong


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("class TestT:\n    def test_a(self): ...", None),
        ("class TestT: ...\ndef test_a(): ...", "is not there"),
        ("@pytest.mark.skip\nclass TestT:\n    def test_a(self): ...", "is skipped"),
        ("class TestT:\n    pytestmark = pytest.mark.skip\n    def test_a(self): ...", "is skipped"),
        ("@pytest.mark.skip\nclass TestOther: ...\nclass TestT:\n    def test_a(self): ...", None),
    ],
)
def test_or_so_is_a_whole_class(source: str, wrong: str | None, tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(source)
    assert problem(file, "TestT::test_a") == wrong


def test_or_a_whole_folder(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text("def test_a(): ...")
    (tmp_path / "conftest.py").write_text("@pytest.fixture(autouse=True)\ndef node():\n    pytest.skip('no node')")
    assert problem(file, "test_a") == "is skipped"


def problem(file: Path, test: str) -> str | None:
    """What is wrong with a test that is named; None for nothing."""
    if not file.is_file():
        return "is not there"
    *classes, name = test.split("::")
    scopes: list[ast.Module | ast.ClassDef] = [parsed(file)]
    for one in classes:
        found = [node for node in scopes[-1].body if isinstance(node, ast.ClassDef) and node.name == one]
        if not found:
            return "is not there"
        scopes += found
    matching = [node for node in scopes[-1].body if isinstance(node, FUNCTIONS) and node.name == name]
    if not matching:
        return "is not there"
    around = [*(part for scope in scopes for part in beside_tests(scope)), *given_by_folders(file)]
    return "is skipped" if any(map(silences, [*around, *matching])) else None


def beside_tests(scope: ast.Module | ast.ClassDef) -> list[ast.AST]:
    """What all tests of a module or a class share: marks, fixtures, what is run at import."""
    shared = [node for node in scope.body if not getattr(node, "name", "").lower().startswith("test")]
    return [*shared, *scope.decorator_list] if isinstance(scope, ast.ClassDef) else [*shared]


def given_by_folders(file: Path) -> list[ast.AST]:
    """What the test's folder, and those above it, give to every test in them."""
    folders = [folder for folder in file.parents if folder.is_relative_to(ROOT / "tests") or folder == file.parent]
    return [parsed(folder / "conftest.py") for folder in folders if (folder / "conftest.py").is_file()]


def silences(node: ast.AST) -> bool:
    """Whether anything in it skips or expects a failure."""
    return any(
        isinstance(part, ast.Attribute) and part.attr in SILENCED | {"importorskip"} and "pytest" in ast.unparse(part)
        for part in ast.walk(node)
    )


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))
