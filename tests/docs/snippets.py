"""The snippets of a Markdown page, and the remarks in HTML comments that say how the tests run them.

A page is played from top to bottom, in one folder, with one database and one namespace. `python` is executed (`await`
may stand at the top), `sql` is run (with psql's `\\gset` and `:'name'`), `toml` and `ini` are read as settings and
units, and of `sh` each `wakeful …` must be a command line that the CLI accepts, as every line of a fence without a
language that begins so, and every `command: [...]` of `yaml`. A fence in the language `output` is what the snippet
before it prints; `…` stands for anything. `text` is left alone. A comment before a fence says more:

    <!-- run -->             sh: really run it
    <!-- background -->      sh: start it, and end it with the page, by SIGTERM; it must exit 0
    <!-- eventually -->      repeat it until it prints what the `output` below it says
    <!-- terminal -->        output: of what was started in the background, since the last time
    <!-- file: shop.py -->   do not run it: it is the content of that file
    <!-- raises: Refused --> python, sql: it must fail with that error
    <!-- skip: why -->       it cannot run here, and this is why; the tests count and print these

`<!-- setup: python`, some lines and `-->` are a snippet that readers do not see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
WORDS = ("run", "background", "eventually", "terminal", "file", "raises", "skip")

_PART = re.compile(
    r"^<!-- setup: (?P<setup>\w+)\n(?P<hidden>.*?)^-->$"
    r"|^<!-- (?P<word>" + "|".join(WORDS) + r")(?:: (?P<said>.*?))? -->$"
    r"|^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A fence, or a hidden one. `line` is that of its first line of text."""

    page: Path
    line: int
    language: str
    text: str
    remarks: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where it is, as editors and terminals link it."""
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


def pages() -> list[Path]:
    """Every page whose snippets are run."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def snippets(page: Path) -> Iterator[Snippet]:
    """All snippets of a page, in order."""
    whole = page.read_text("utf-8")
    remarks: dict[str, str] = {}
    for found in _PART.finditer(whole):
        if found["word"]:
            remarks[found["word"]] = found["said"] or ""
            continue
        part = "hidden" if found["setup"] else "text"
        line = whole.count("\n", 0, found.start(part)) + 1
        yield Snippet(page, line, found["setup"] or found["language"], dedent(found[part]), remarks)
        remarks = {}
