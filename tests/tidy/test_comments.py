"""Comments and docstrings are for today's reader: they say why, not what came before."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.tree import files, lines, nodes, place

HISTORY = re.compile(
    r"\b(previously|formerly|used to be|refactored|renamed from|moved from)\b"
    r"|^\W*(new|now|changed|fixed|added|updated|removed):",
    re.IGNORECASE,
)
# What a file must have somewhere for one of its comments to match: reading comments apart is slow.
ANYWHERE = re.compile(HISTORY.pattern.replace(r"^\W*", r"\b"), re.IGNORECASE)


def test_no_comment_tells_history() -> None:
    python = [(where, text) for path in files(".py") for where, text in remarks(path)]
    sql = [(where, line) for path in files(".sql") for where, line in lines(path) if "--" in line]
    assert not [f"{where}: {text.strip()}" for where, text in python + sql if HISTORY.search(text)]


def remarks(path: Path) -> Iterator[tuple[str, str]]:
    """Every comment and docstring of a Python file, behind its place."""
    text = path.read_text("utf-8")
    if not ANYWHERE.search(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield place(path, token.start[0]), token.string
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield place(path, getattr(node, "lineno", 1)), ast.get_docstring(node) or ""
