"""The README of the SQL core: its example runs, its SQLSTATEs are all there are."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

from tests.docs.play import Play
from tests.docs.snippets import snippets
from tests.sessions import Session, query
from wakeful.testing import Database
from wakeful.values.errors import BY_SQLSTATE

README = Path(__file__).parents[2] / "src" / "wakeful" / "sql" / "README.md"


def test_the_example_runs_as_it_is_printed(database: Database, tmp_path: Path) -> None:
    played = [one for one in snippets(README) if one.language != "mermaid"]
    assert len(played) > 8
    with Play(tmp_path, database, ModuleType("example")) as play:
        for snippet in played:
            play.step(snippet)


def test_every_sqlstate_is_told_and_no_other(db: Session) -> None:
    text = README.read_text("utf-8")
    errors = set(re.findall(r"^\| `(WF\d{3})`", text, re.MULTILINE))
    raised = query(
        db,
        "select distinct m[1] as code from pg_proc p, regexp_matches(p.prosrc, '''(WF[0-9]{3})''', 'g') m"
        " where p.pronamespace = 'wakeful'::regnamespace",
    )
    assert errors == set(BY_SQLSTATE)
    assert {row["code"] for row in raised} <= set(re.findall(r"`(WF\d{3})`", text)), "notices are told too"


def test_every_arrow_of_the_diagram_leads_from_a_state_to_a_state(db: Session) -> None:
    diagram = re.search(r"```mermaid\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert diagram is not None
    drawn = set(re.findall(r"^\s+(\S+) --> (\S+?):?(?:\s|$)", diagram[1], re.MULTILINE))
    named = {
        row["name"] for row in query(db, "select wakeful.state_name(n::smallint) as name from generate_series(0, 5) n")
    }
    assert {name for arrow in drawn for name in arrow} == named | {"[*]"}
