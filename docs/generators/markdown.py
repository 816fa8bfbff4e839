"""The little Markdown that the pages are made of."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar inside a cell is kept from ending it."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    """Text as code; nothing for no text."""
    return f"`{text}`" if text else ""


def paragraphs(doc: str | None) -> list[str]:
    """A docstring's paragraphs, each on one line."""
    if not doc:
        return []
    return [" ".join(part.split()) for part in inspect.cleandoc(doc).split("\n\n")]


def promise(doc: str | None) -> str:
    """A docstring's first paragraph."""
    return next(iter(paragraphs(doc)), "")


def anchor(heading: str) -> str:
    """Where a link to a heading leads."""
    return "#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def joined(*parts: str) -> str:
    """Blocks with an empty line between them; empty ones are left out."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())
