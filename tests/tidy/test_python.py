"""What Python code may do, beyond what ruff and mypy see."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.tree import ROOT, SOURCE, below, files, nodes, place

# A migration's script is text for psql and for a DBA's eyes, and text has no parameters.
SCRIPTS = SOURCE / "database" / "migrations"

# A keyword in lower or upper case, but not as a sentence begins: "Select a queue" is none.
MARKS = re.compile(
    r"\s*(select|insert into|update \S+ set|delete from|with \w+ as|truncate|listen|notify|copy|call"
    r"|(create|alter|drop) (table|index|view|schema|database|role|function|unique)|grant|revoke"
    r"|set (local )?\w+ (=|to))\s",
    re.IGNORECASE,
)


def test_catching_everything_comes_with_a_reason() -> None:
    unexplained = [where for path in files(".py") for where in unexplained_handlers(path)]
    assert not unexplained, "say in a comment, at the except or beside it, why every exception is caught there"


def test_sql_is_not_built_from_strings() -> None:
    """Values are parameters, names come from psycopg's sql module; only constants may be woven in."""
    shown = below(SOURCE, ".py") + below(ROOT / "examples", ".py")
    built = [where for path in shown if SCRIPTS not in path.parents for where in built_sql(path)]
    assert not built


def unexplained_handlers(path: Path) -> Iterator[str]:
    source = path.read_text("utf-8").splitlines()
    for node in nodes(path):
        if isinstance(node, ast.ExceptHandler) and catches_everything(node):
            header = source[node.lineno - 1 : node.body[0].lineno]
            above = source[node.lineno - 2].lstrip().startswith("#")
            if not above and not any("#" in line for line in header):
                yield place(path, node.lineno)


def catches_everything(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or ast.unparse(kind) in {"Exception", "BaseException"} for kind in caught)


def built_sql(path: Path) -> Iterator[str]:
    for node in nodes(path):
        match node:
            case ast.JoinedStr(values=[ast.Constant(value=str(start)), *_]) if not weaves_constants(node):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(start)), attr="format")):
                pass
            case ast.BinOp(left=ast.Constant(value=str(start)), op=ast.Mod() | ast.Add()):
                pass
            case _:
                continue
        if is_sql(start):
            yield place(path, node.lineno)


def weaves_constants(text: ast.JoinedStr) -> bool:
    woven = [part.value for part in text.values if isinstance(part, ast.FormattedValue)]
    return all(isinstance(value, ast.Name) and value.id.isupper() for value in woven)


def is_sql(text: str) -> bool:
    first = text.lstrip()[:2]
    return bool(MARKS.match(text)) and (first.islower() or first.isupper())
