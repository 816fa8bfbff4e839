"""Tests wait on signals, not on the clock."""

import ast
import re
from collections.abc import Iterator

import wakeful.testing
from tests.tidy.tree import ROOT, below, nodes, place

SHORTEST_FORBIDDEN_SLEEP_SECONDS = 0.5
# An hour stands for ever: a handler that is to be stopped.
FOR_EVER_SECONDS = 3600
# In a program that a test writes to a file.
WRITTEN = re.compile(r"(?<!\w)sleep\((\d+(?:\.\d+)?)\)")
ASKED_OF_THE_SERVER = re.compile(r"pg_sleep\((\d+(?:\.\d+)?)\)")


def test_no_test_sleeps_half_a_second_or_more() -> None:
    sleeps = [
        place(path, node.lineno)
        for path in below(ROOT / "tests", ".py")
        for node in nodes(path)
        if isinstance(node, ast.expr) and any(is_long(seconds) for seconds in sleeps_of(node))
    ]
    assert not sleeps


def test_a_sleep_is_found_however_it_is_written() -> None:
    for written in (
        "time.sleep({})",
        "await asyncio.sleep({})",
        "sleep({}.0)",
        "PROGRAM = 'import time; time.sleep({})'",
        "conn.execute('select pg_sleep({}.6)')",
    ):
        text = written.format(1)
        expressions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr)]
        assert any(is_long(seconds) for node in expressions for seconds in sleeps_of(node)), text


def is_long(seconds: float) -> bool:
    return seconds >= SHORTEST_FORBIDDEN_SLEEP_SECONDS and seconds != FOR_EVER_SECONDS


def sleeps_of(node: ast.expr) -> Iterator[float]:
    """The seconds of the sleeps that are written in the expression itself."""
    match node:
        case ast.Call(
            func=ast.Attribute(attr="sleep") | ast.Name(id="sleep"),
            args=[ast.Constant(value=int() | float() as seconds)],
        ):
            yield seconds
        case ast.Call(func=ast.Attribute(attr="execute") | ast.Name(id="query" | "scalar"), args=arguments):
            texts = [part.value for part in arguments if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            yield from (float(seconds) for text in texts for seconds in ASKED_OF_THE_SERVER.findall(text))
        case ast.Constant(value=str() as program):
            yield from (float(seconds) for seconds in WRITTEN.findall(program))


def test_what_users_have_for_their_tests_is_what_ours_use() -> None:
    ours = [
        place(path, node.lineno)
        for path in below(ROOT / "tests", ".py")
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("wakeful.edges.testing")
        and any(name.name in wakeful.testing.__all__ for name in node.names)
    ]
    assert not ours
