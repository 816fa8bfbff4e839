"""Tables of text: for terminals with columns aligned, for Markdown with pipes."""

from __future__ import annotations

from collections.abc import Sequence

Row = Sequence[str]


def aligned(head: Row, rows: Sequence[Row]) -> str:
    """For a terminal; the first column is text, the others are numbers."""
    widths = [max(len(row[index]) for row in (head, *rows)) for index in range(len(head))]

    def line(row: Row) -> str:
        first, *others = (
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join([first, *others]).rstrip()

    return "\n".join([line(head), "  ".join("─" * width for width in widths), *map(line, rows)])


def piped(head: Row, rows: Sequence[Row]) -> str:
    """For Markdown; the first column is text, the others are numbers."""
    rule = ["---", *(["---:"] * (len(head) - 1))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))
