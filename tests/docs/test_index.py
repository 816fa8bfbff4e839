"""A page that nobody can find is not there: the index names every one."""

from __future__ import annotations

import re

from tests.docs.snippets import ROOT
from tests.tidy.test_documents import relative_links
from tests.tidy.tree import files, place

DOCS = ROOT / "docs"


def test_the_index_links_to_every_page() -> None:
    index = DOCS / "README.md"
    linked = {(index.parent / target).resolve() for target in relative_links(index)}
    missing = [place(page) for page in files(".md") if DOCS in page.parents and page != index and page not in linked]
    assert not missing


def test_every_link_to_a_heading_finds_it() -> None:
    lost = []
    for page in [path for path in files(".md") if DOCS in path.parents or path.parent == ROOT]:
        for target, heading in re.findall(r"\]\(([^)\s#]*)#([^)\s]+)\)", page.read_text("utf-8")):
            aim = page if not target else (page.parent / target).resolve()
            if "://" not in target and heading not in headings(aim.read_text("utf-8")):
                lost.append(f"{place(page)}: {target}#{heading}")
    assert not lost


def headings(text: str) -> set[str]:
    """What a link may name after the `#`."""
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}
