"""The schema's files: today's truth, readable on their own, closed against forged search paths."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.tree import SCHEMA, below, place

FILES = below(SCHEMA, ".sql")
PINNED = "set search_path = pg_catalog, pg_temp"

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@each_file
def test_a_schema_file_says_what_it_is_and_a_function_what_it_promises_and_locks(path: Path) -> None:
    header = re.match(r"(--.*\n)+", path.read_text("utf-8"))
    assert header, f"{place(path)} has no header comment"
    told = re.findall(r"\b(promise|locks)\b", header[0].lower())
    assert not list(functions(path)) or {"promise", "locks"} <= set(told)


@each_file
def test_whatever_is_created_is_schema_qualified(path: Path) -> None:
    created = re.findall(
        r"\bcreate (?:or replace )?(?:unlogged )?(?:table|view|function|procedure|type|sequence|aggregate)"
        r"(?: if not exists)? ([^\s(]+)",
        code(path),
    )
    placed = re.findall(r"\bcreate (?:unique )?index [^;]*? on (?:only )?([^\s(]+)", code(path))
    assert not [name for name in created + placed if not name.startswith("wakeful.")]


@each_file
def test_functions_that_act_as_the_owner_pin_their_search_path(path: Path) -> None:
    opened = [
        name for name, head in functions(path) if "security definer" in head and PINNED not in " ".join(head.split())
    ]
    assert not opened


@each_file
def test_sql_is_written_in_lower_case(path: Path) -> None:
    assert not re.findall(r"\b[A-Z][A-Z_]+\b", code(path))


@each_file
def test_no_column_or_variable_holds_a_time_without_zone(path: Path) -> None:
    zoneless = re.findall(r".*(?<!::)\btimestamp\b(?!\s+(?:with|at) time zone).*", code(path))
    assert not zoneless


@each_file
def test_only_the_queues_own_clock_is_read(path: Path) -> None:
    """Another clock has its reason in the header; a function that decides has none."""
    others = r"\b(?:clock|statement|transaction)_timestamp\b|\bcurrent_(?:timestamp|time|date)\b"
    read = re.findall(rf"(?<!wakeful\.)\bnow\(\)|{others}", code(path))
    assert not read or re.match(r"(--.*\n)*--.*\bclock\b", path.read_text("utf-8"))


def functions(path: Path) -> Iterator[tuple[str, str]]:
    """The name of each function, and everything between it and its body."""
    for found in re.finditer(
        r"\bcreate (?:or replace )?(?:function|procedure) ([^\s(]+)"
        r"(.*?)(?:\bas \$|\breturn\b|\bbegin atomic\b)",
        code(path),
        re.DOTALL,
    ):
        yield found[1], found[2]


def code(path: Path) -> str:
    """The file without comments, string literals and quoted names; function bodies stay."""
    return re.sub(r"--.*|'(?:[^']|'')*'|\"[^\"]*\"", "", path.read_text("utf-8"))


@each_file
def test_functions_that_pin_their_plan_do_not_have_it_compiled(path: Path) -> None:
    """Before version 18 a plan node that is turned off counts as so dear that the plan is compiled each time."""
    pinned = [name for name, head in functions(path) if "enable_" in head and "set jit = off" not in head]
    assert not pinned
