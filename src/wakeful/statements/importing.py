"""Rows of a home-made table, taken in and given back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from wakeful.statements.statement import Row, Statement, first_value


@dataclass(frozen=True, slots=True)
class Arrival:
    """What became of a row: inserted, joined, completed, dead, or known from before."""

    key: str
    job_id: UUID
    action: str


_IMPORT: Final = """
select i.legacy_key, i.job_id, i.action from wakeful.import_rows(%(source)s::text, %(rows)s::jsonb) i
"""

_RETURN: Final = """
select r.legacy_key, r.original::text
from wakeful.return_rows(%(source)s::text, %(want)s::integer, %(actor)s::text, %(but)s::text[]) r
"""

_KEPT: Final = "select k.reason, k.rows from wakeful.kept_rows(%(source)s::text) k"


def import_rows(source: str, rows: Sequence[str]) -> Statement[list[Arrival]]:
    """Make jobs of the rows, each a JSON object of a legacy_row, that the ledger of the source does not have."""

    def decode(found: Sequence[Row]) -> list[Arrival]:
        return [Arrival(key, id, action) for key, id, action in found]

    return Statement(_IMPORT, {"source": source, "rows": f"[{','.join(rows)}]"}, decode)


def return_rows(source: str, want: int, actor: str | None, but: Collection[str]) -> Statement[list[tuple[str, str]]]:
    """Take back up to `want` jobs that were never started, but for these keys; the answer is keys, and rows as JSON."""
    params = {"source": source, "want": want, "actor": actor, "but": list(but)}
    return Statement(_RETURN, params, lambda found: [(key, original) for key, original in found])


def kept_rows(source: str) -> Statement[dict[str, int]]:
    """How many rows do not go back: started, joined, shared or changed."""
    return Statement(_KEPT, {"source": source}, lambda found: dict(tuple(row) for row in found))


def moment_before(age: timedelta) -> Statement[datetime]:
    """The moment this long ago, by the queue's clock."""
    return Statement("select wakeful.now() - %(age)s::interval", {"age": age}, first_value)
