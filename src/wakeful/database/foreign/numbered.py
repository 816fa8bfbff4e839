"""`%(name)s` to `$1`: the placeholders of asyncpg, for a Statement as it is."""

from __future__ import annotations

import re
from functools import lru_cache

from wakeful.statements.statement import Statement

_PLACEHOLDER = re.compile(r"%%|%\((?P<name>\w+)\)s(?P<json>::jsonb?(?P<array>\[\])?)?")


def numbered(statement: Statement[object]) -> tuple[str, tuple[object, ...]]:
    """The statement's text with `$n`, and its values in that order."""
    text, names = _rewrite(statement.sql)
    return text, tuple(statement.params[name] for name in names)


@lru_cache(maxsize=512)
def _rewrite(sql: str) -> tuple[str, tuple[str, ...]]:
    names: dict[str, int] = {}

    def replace(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        number = names.setdefault(found["name"], len(names) + 1)
        # JSON goes as text first: a user's own codec for jsonb would encode our text once more.
        via = f"::text{found['array'] or ''}" if found["json"] else ""
        return f"${number}{via}{found['json'] or ''}"

    return _PLACEHOLDER.sub(replace, sql), tuple(names)
