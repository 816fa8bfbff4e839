"""Which task a value is made for: `@app.task(retry=Exponential(jitter=2))` is refused before the task is known."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from wakeful.values.errors import InvalidOption

_OURS: Final = __name__.partition(".")[0]
_DECLARES: Final = ("task", "schedule")


@contextmanager
def naming_the_task() -> Iterator[None]:
    """An InvalidOption of the block names the task in whose declaration the calling line stands, if it is in one."""
    try:
        yield
    except InvalidOption as error:
        task = task_declared_at(sys._getframe(2))
        if task is None:
            raise
        raise InvalidOption(
            error.option, error.problem, message=f"Task {task}: {error.option} {error.problem}"
        ) from None


def task_declared_at(frame: FrameType | None) -> str | None:
    """The task whose decorator spans the line that the first frame outside of this package is at; None for none."""
    while frame is not None and _module(frame).partition(".")[0] == _OURS:
        frame = frame.f_back
    if frame is None:
        return None
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
    except (SyntaxError, ValueError):
        return None
    module = _module(frame)
    if module == "__main__":
        module = Path(frame.f_code.co_filename).stem
    return next(_tasks_at(frame.f_lineno, tree, module), None)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _tasks_at(line: int, within: ast.AST, path: str) -> Iterator[str]:
    """The names of tasks below a node whose declaration spans the line."""
    for node in ast.iter_child_nodes(within):
        here = path
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            here = f"{path}.{node.name}"
            yield from (_name(one, here) for one in node.decorator_list if _declares(one, line))
        yield from _tasks_at(line, node, here)


def _declares(decorator: ast.expr, line: int) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and decorator.func.attr in _DECLARES
        and decorator.lineno <= line <= (decorator.end_lineno or decorator.lineno)
    )


def _name(decorator: ast.expr, default: str) -> str:
    """What `name=` says, where it is written out; else the function's own."""
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    for keyword in keywords:
        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str):
            return keyword.value.value
    return default
