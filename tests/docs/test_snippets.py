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
        monkeypatch.setattr(Worker, "run", until_idle(database))
        with Play(tmp_path, database, module) as playing:
            yield playing
