"""Tests wait on signals, not on the clock."""

import ast

from tests.tidy.tree import ROOT, below, nodes, place

SHORTEST_FORBIDDEN_SLEEP_SECONDS = 0.5
# An hour stands for ever: a handler that is to be stopped.
FOR_EVER_SECONDS = 3600


def test_no_test_sleeps_half_a_second_or_more() -> None:
    sleeps = [
        place(path, node.lineno)
        for path in below(ROOT / "tests", ".py")
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and sleep_seconds(node) >= SHORTEST_FORBIDDEN_SLEEP_SECONDS
        and sleep_seconds(node) != FOR_EVER_SECONDS
    ]
    assert not sleeps


def sleep_seconds(call: ast.Call) -> float:
    match call:
        case ast.Call(
            func=ast.Attribute(attr="sleep") | ast.Name(id="sleep"),
            args=[ast.Constant(value=int() | float() as seconds)],
        ):
            return seconds
    return 0
