"""The generated reference is what the code says today, and says all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import docs.generate
from docs.generators.schema import grants, views
from tests.docs.snippets import ROOT
from tests.tidy.tree import SOURCE, below
from wakeful.testing import Database

REFERENCE = ROOT / "docs" / "reference"


def test_the_reference_is_current() -> None:
    assert docs.generate.generate(check=True) == [], "run `make docs`"


def test_a_stale_page_is_named_and_fails_the_check(tmp_path: Path) -> None:
    assert docs.generate.generate(tmp_path) == list(docs.generate.PAGES)
    assert docs.generate.generate(tmp_path, check=True) == []
    (tmp_path / "cli.md").write_text("of yesterday")
    assert docs.generate.generate(tmp_path, check=True) == ["cli.md"]


@pytest.mark.parametrize(("arguments", "code"), [(["--check"], 0), (["--chek"], 2)])
def test_the_exit_code_tells(arguments: list[str], code: int) -> None:
    assert docs.generate.main(arguments) == code


def test_every_variable_that_the_code_reads_is_in_the_settings() -> None:
    told = (REFERENCE / "settings.md").read_text("utf-8")
    read = {
        name
        for path in below(SOURCE, ".py")
        for name in re.findall(r"\bWAKEFUL_[A-Z_]*[A-Z]\b", path.read_text("utf-8"))
    }
    assert not {name for name in read if f"`{name}`" not in told}


def test_the_views_have_the_columns_that_the_reference_names(database: Database) -> None:
    with database.connect() as conn:
        rows = conn.execute(
            "select table_name, array_agg(column_name::text order by ordinal_position)"
            " from information_schema.columns where table_schema = 'wakeful'"
            " and table_name in (select viewname from pg_views where schemaname = 'wakeful') group by table_name"
        ).fetchall()
    assert {view.name: list(view.columns) for view in views()} == dict(rows)


def test_every_function_that_a_role_may_call_is_in_the_reference(database: Database) -> None:
    with database.connect() as conn:
        granted = {
            str(name)
            for (name,) in conn.execute(
                "select distinct routine_name from information_schema.routine_privileges"
                " where routine_schema = 'wakeful' and grantee like 'wakeful\\_%'"
            )
        }
    told = set(re.findall(r"^### wakeful\.(\w+)$", (REFERENCE / "sql.md").read_text("utf-8"), re.MULTILINE))
    assert granted == set(grants())
    assert granted <= told
