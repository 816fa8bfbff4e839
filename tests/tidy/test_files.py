"""Sizes, names and what no file may contain."""

import ast
import re
from pathlib import Path

from tests.tidy.tree import MIGRATIONS, ROOT, files, lines, nodes, place

MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 60
NAMES_THAT_SAY_NOTHING = {"common", "data", "helper", "helpers", "manager", "misc", "util", "utils"}


def test_no_file_is_longer_than_four_hundred_lines() -> None:
    long = {
        place(path): count
        for path in files(".py", ".sql")
        # A migration is written once, often as a copy of the schema, and never edited afterwards.
        if not path.is_relative_to(MIGRATIONS) and (count := sum(1 for _ in lines(path))) > MOST_LINES
    }
    assert not long


def test_no_function_is_longer_than_sixty_lines() -> None:
    long = {
        place(path, node.lineno): node.name
        for path in files(".py")
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MOST_LINES_OF_A_FUNCTION
    }
    assert not long


def test_names_of_files_and_folders_say_what_is_inside() -> None:
    empty = [place(path) for path in files(".py", ".sql") if words_of(path) & NAMES_THAT_SAY_NOTHING]
    assert not empty


def test_names_of_classes_say_what_they_are() -> None:
    empty = [
        place(path, node.lineno)
        for path in files(".py")
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and re.search(r"(Manager|Helper|Utils?)$", node.name)
    ]
    assert not empty


def test_nothing_is_left_for_later_in_the_code() -> None:
    assert not places_of(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")


def test_no_file_names_a_machine_of_ours() -> None:
    assert not places_of(r"(?<![\w.])/(work|root|home/\w+|Users/\w+)/")


def test_no_file_names_a_package_registry() -> None:
    assert not places_of(r"\b(pypi\.org|pythonhosted\.org|npmjs\.org|deb\.debian\.org)\b|--(extra-)?index-url\b")


def test_text_ends_with_one_newline_and_lines_with_no_blanks() -> None:
    untidy = [where for path in files(".py", ".sql", ".md", ".toml") for where in untidy_ends(path)]
    assert not untidy


def untidy_ends(path: Path) -> list[str]:
    trailing = [where for where, line in lines(path) if line != line.rstrip()]
    text = path.read_text("utf-8")
    return trailing if not text or re.search(r"[^\n]\n\Z", text) else [*trailing, place(path)]


def words_of(path: Path) -> set[str]:
    inside = path.relative_to(ROOT).with_suffix("")
    return {word for part in inside.parts for word in re.split(r"[_.\-]", part.lower())}


def places_of(pattern: str) -> list[str]:
    wanted = re.compile(pattern)
    return [f"{where}: {line.strip()}" for path in files() for where, line in lines(path) if wanted.search(line)]
