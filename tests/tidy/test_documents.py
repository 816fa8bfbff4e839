"""The documents that a visitor expects, and the links between them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT, files, place


@pytest.mark.parametrize(
    "name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE"]
)
def test_a_document_that_visitors_expect_is_there(name: str) -> None:
    assert (ROOT / name).is_file()


def test_the_changelog_has_a_place_for_the_next_change() -> None:
    assert "\n## Unreleased\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_every_link_between_documents_leads_somewhere() -> None:
    broken = [
        f"{place(path)}: {target}"
        for path in files(".md")
        for target in relative_links(path)
        if not (path.parent / target).exists()
    ]
    assert not broken


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = sorted(int(path.name[:4]) for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert numbers == list(range(1, len(numbers) + 1))


def relative_links(path: Path) -> Iterator[str]:
    """What a document links to within the repository, less the anchor."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        file = target.partition("#")[0]
        if file and "://" not in target and not target.startswith("mailto:"):
            yield file
