"""Every snippet of README.md and docs/ runs, against a real database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.play import Play
from tests.docs.snippets import ROOT, Snippet, pages, snippets
from tests.docs.stage import AFTER, BEFORE, EMBEDDED, MODULES, as_url, until_idle
from wakeful.testing import Databases
from wakeful.worker import Worker

ALL = {page.relative_to(ROOT).as_posix(): list(snippets(page)) for page in pages()}
CANNOT_RUN = [one for found in ALL.values() for one in found if "skip" in one.remarks]


def needs_database(page: str) -> bool:
    """Whether anything of the page is more than read."""
    active = (one.language in ("python", "sql") or {"run", "background"} & one.remarks.keys() for one in ALL[page])
    return page not in EMBEDDED and any(active)


@pytest.mark.parametrize(
    "page",
    [pytest.param(name, marks=[pytest.mark.slow] if name in EMBEDDED else []) for name, found in ALL.items() if found],
)
def test_every_snippet_of_a_page_runs(page: str, play: Play) -> None:
    for snippet in [*BEFORE.get(page, []), *ALL[page], *AFTER.get(page, [])]:
        play.step(snippet)


def test_a_file_that_a_page_writes_is_used_by_what_runs_after_it() -> None:
    """By itself it is only written: what is wrong in it would be seen by readers alone."""
    unused = [
        one.place
        for found in ALL.values()
        for place, one in enumerate(found)
        if "file" in one.remarks and not any({"run", "background"} & later.remarks.keys() for later in found[place:])
    ]
    assert not unused


@pytest.mark.parametrize("snippet", CANNOT_RUN, ids=lambda one: one.place)
def test_a_snippet_that_cannot_run_says_why(snippet: Snippet) -> None:
    assert snippet.remarks["skip"]
    pytest.skip(f"{snippet.place}: {snippet.remarks['skip']}")


@pytest.fixture
def play(page: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    """A folder, a module and, if it needs one, a database of the page's own."""
    module = ModuleType(MODULES.get(page, "shop"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    if not needs_database(page):
        with Play(tmp_path, None, module) as playing:
            yield playing
        return
    databases: Databases = request.getfixturevalue("databases")
    with databases.migrated() as database:
        monkeypatch.setenv("WAKEFUL_DSN", as_url(database))
        # Tests that a page runs need no server of their own.
        monkeypatch.setenv("WAKEFUL_TEST_DSN", databases.dsn)
        monkeypatch.setattr(Worker, "run", until_idle(database))
        with Play(tmp_path, database, module) as playing:
            yield playing
