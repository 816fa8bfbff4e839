"""Rows of a home-made table, taken in and given back."""

from __future__ import annotations

from collections.abc import Sequence
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
select r.original::text from wakeful.return_rows(%(source)s::text, %(want)s::integer, %(actor)s::text) r
"""


def import_rows(source: str, rows: Sequence[str]) -> Statement[list[Arrival]]:
    """Make jobs of the rows, each a JSON object of a legacy_row, that the ledger of the source does not have."""

    def decode(found: Sequence[Row]) -> list[Arrival]:
        return [Arrival(key, id, action) for key, id, action in found]

    return Statement(_IMPORT, {"source": source, "rows": f"[{','.join(rows)}]"}, decode)


def return_rows(source: str, want: int, actor: str | None) -> Statement[list[str]]:
    """Take back up to `want` jobs that were never started; the answer is their rows as they were, as JSON."""
    params = {"source": source, "want": want, "actor": actor}
    return Statement(_RETURN, params, lambda found: [original for (original,) in found])


def moment_before(age: timedelta) -> Statement[datetime]:
    """The moment this long ago, by the queue's clock."""
    return Statement("select wakeful.now() - %(age)s::interval", {"age": age}, first_value)
