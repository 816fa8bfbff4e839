"""`wakeful.dedup_key` and `wakeful.canonical_json` give the same bytes as Python's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakeful.testing import Database
from wakeful.values.dedup import canonical_json, dedup_key


@pytest.fixture
def conn(database: Database) -> Iterator[psycopg.Connection[Any]]:
    with database.connect() as connection:
        yield connection


# jsonb holds neither NUL nor lone surrogates.
texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
awkward_keys = st.sampled_from(
    ["", "a", "aa", "A", "ä", "Z", "\uffff", "\U00010000", "😀", "a.b", '"', "\\", "\n", "0", "10", "9"]
)
numbers = (
    st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        [0.0, -0.0, 1.0, 1e16, 1e21, 1e22, 1e300, 5e-324, 1.7976931348623157e308, 0.1, 1e-7, 2**63, 10**40]
    )
)
scalars = st.none() | st.booleans() | numbers | texts
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | awkward_keys, inner, max_size=5),
    max_leaves=20,
)
payloads = st.dictionaries(texts | awkward_keys, documents, max_size=5)
names = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=10)

# The function-scoped database is shared by all examples on purpose: the functions read no table.
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def in_sql(conn: psycopg.Connection[Any], task: str, tenant: str | None, payload: str | None) -> bytes:
    row = conn.execute(
        "select convert_to(wakeful.dedup_key(%s::text, %s::text, %s::jsonb), 'UTF8')", (task, tenant, payload)
    ).fetchone()
    assert row is not None
    assert isinstance(row[0], bytes)
    return row[0]


@quick
@given(task=names, tenant=st.none() | names, payload=payloads)
def test_python_and_sql_give_the_same_bytes(
    conn: psycopg.Connection[Any], task: str, tenant: str | None, payload: dict[str, object]
) -> None:
    assert in_sql(conn, task, tenant, json.dumps(payload)) == dedup_key(task, tenant, payload).encode()


@quick
@given(payload=payloads)
def test_what_the_database_holds_gives_the_key_of_what_was_sent(
    conn: psycopg.Connection[Any], payload: dict[str, object]
) -> None:
    row = conn.execute("select %s::jsonb::text", (json.dumps(payload),)).fetchone()
    assert row is not None
    assert canonical_json(json.loads(row[0])) == canonical_json(payload)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.0", "1"),
        ("1.50", "1.5"),
        ("1e3", "1000"),
        ("1E-3", "0.001"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("100", "100"),
        ("0.10", "0.1"),
        ("123456789012345678901234567890.5", "123456789012345678901234567890.5"),
        ('"\\u0001\\u001f\\u007f\\b\\f\\n\\r\\t\\"\\\\\\/"', '"\\u0001\\u001f\x7f\\b\\f\\n\\r\\t\\"\\\\/"'),
        ('"\\ud83d\\ude00é\u2028"', '"😀é\u2028"'),
        ('{"b": [1, {"d": null, "c": true}], "a": {}}', '{"a":{},"b":[1,{"c":true,"d":null}]}'),
        (
            '{"\U00010000": 1, "\uffff": 2, "aa": 3, "b": 4, "": 5}',
            '{"":5,"aa":3,"b":4,"\uffff":2,"\U00010000":1}',
        ),
        ('[[], {}, "", [[1]]]', '[[],{},"",[[1]]]'),
    ],
)
def test_canonical_form(conn: psycopg.Connection[Any], text: str, canonical: str) -> None:
    row = conn.execute("select wakeful.canonical_json(%s::jsonb)", (text,)).fetchone()
    assert row == (canonical,)


def test_no_tenant_is_global_and_no_payload_is_empty(conn: psycopg.Connection[Any]) -> None:
    assert in_sql(conn, "mail.send", None, None) == b"mail.send::global::{}"
    assert dedup_key("mail.send", None) == "mail.send::global::{}"


def test_a_payload_nested_64_deep_has_a_key(conn: psycopg.Connection[Any]) -> None:
    payload: dict[str, object] = {}
    for _ in range(63):
        payload = {"in": payload}
    assert in_sql(conn, "t", "acme", json.dumps(payload)) == dedup_key("t", "acme", payload).encode()
