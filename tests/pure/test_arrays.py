"""Values and arrays as text, as PostgreSQL reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from wakeful.statements.arrays import array_of, text_of
from wakeful.values.job import JobId


class Text(str):
    def __str__(self) -> str:
        return "not the text itself"


def test_each_kind_of_value_is_written_as_postgresql_reads_it() -> None:
    id = UUID(int=255)
    assert array_of([]) == "{}"
    assert array_of(['a "b" \\ {c},', "", None, "null"]) == '{"a \\"b\\" \\\\ {c},","",null,"null"}'
    assert array_of([id, JobId(id, "inserted")]) == f"{{{id.hex},{id.hex}}}"
    assert array_of([True, False, 7, -1]) == "{true,false,7,-1}"
    assert array_of([datetime(2026, 1, 2, tzinfo=UTC)]) == '{"2026-01-02T00:00:00+00:00"}'
    assert array_of([timedelta(days=1, microseconds=5)]) == '{"86400000005 microseconds"}'
    assert array_of([Text("x")]) == '{"x"}'


def test_a_value_alone_has_no_quotes() -> None:
    id = UUID(int=255)
    assert [text_of(one) for one in ('a "b"', "", None, Text('"x"'))] == ['a "b"', "", None, '"x"']
    assert [text_of(one) for one in (id, JobId(id, "inserted"), True, 7)] == [id.hex, id.hex, "true", "7"]
    assert text_of(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00+00:00"
    assert text_of(timedelta(days=1)) == "86400000000 microseconds"


def test_other_kinds_are_refused() -> None:
    with pytest.raises(TypeError, match="bytes"):
        array_of([b"x"])
