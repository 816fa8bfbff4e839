"""Statements that show what a runner must do, whichever driver it is for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from psycopg import sql

from wakeful.statements.statement import Row, Statement, nothing

ID = UUID("0190b3a0-0000-7000-8000-000000000001")


def rows_of(rows: Sequence[Row]) -> list[tuple[object, ...]]:
    return [tuple(row) for row in rows]


EVERY_KIND = Statement(
    """
    select %(id)s::uuid, %(at)s::timestamptz, %(wait)s::interval, %(n)s::int, %(ratio)s::float8,
           %(text)s::text,
           %(flag)s::boolean, %(none)s::text, %(ids)s::uuid[], %(words)s::text[], %(empty)s::uuid[],
           %(json)s::jsonb::text, %(jsons)s::jsonb[]::text[], '100%%', %(raw)s::bytea
    """,
    {
        "id": ID,
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "wait": timedelta(minutes=5),
        "n": 7,
        "ratio": 0.5,
        "text": "naïve ☃ 'quoted'",
        "flag": True,
        "none": None,
        "ids": [ID, ID],
        "words": ["a", "b,c", None],
        "empty": [],
        "json": '{"a": [1, null]}',
        "jsons": ['{"a": 1}', "2"],
        "raw": b"\x00\xff",
    },
    rows_of,
)

EVERY_KIND_BACK: list[tuple[object, ...]] = [
    (
        ID,
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        timedelta(minutes=5),
        7,
        0.5,
        "naïve ☃ 'quoted'",
        True,
        None,
        [ID, ID],
        ["a", "b,c", None],
        [],
        '{"a": [1, null]}',
        ['{"a": 1}', "2"],
        "100%",
        b"\x00\xff",
    )
]


def failing(sqlstate: str, message: str, detail: dict[str, object] | None = None, hint: str = "") -> Statement[None]:
    """A statement that the server answers with this error."""
    block = sql.SQL("begin raise exception using errcode = {}, message = {}, detail = {}, hint = {}; end").format(
        sqlstate, message, json.dumps(detail or {}), hint
    )
    text = sql.SQL("do {}").format(block.as_string()).as_string()
    return Statement(text.replace("%", "%%"), {}, nothing)
