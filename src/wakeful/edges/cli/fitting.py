"""Tables on a terminal: as wide as it is, with ids whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

NARROWEST: Final = 10


def print_fitted(columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str]) -> None:
    """Print the rows, long texts cut, and columns of `spare` left out where even that is not enough."""
    console = Console(highlight=False)
    natural = {
        column: max(map(cell_len, texts))
        for column, texts in zip(columns, zip(columns, *rows, strict=True), strict=True)
    }
    widths = fit(natural, console.width, spare)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for column, width in widths.items():
        # An id that is cut cannot be copied: where it must, it folds.
        table.add_column(column, width=width, no_wrap=column != "ID", overflow="fold" if column == "ID" else "ellipsis")
    kept = [index for index, column in enumerate(columns) if column in widths]
    for row in rows:
        table.add_row(*(Text(row[index]) for index in kept))
    console.print(table)


def fit(natural: dict[str, int], room: int, spare: Sequence[str] = ()) -> dict[str, int]:
    """How wide each column may be, with a blank between them; pure."""
    widths = dict(natural)
    for column in spare:
        if sum(_least(name, width) + 1 for name, width in widths.items()) > room:
            del widths[column]
    excess = sum(widths.values()) + len(widths) - room
    while excess > 0:
        widest = max(widths, key=lambda name: widths[name] - _least(name, widths[name]))
        if widths[widest] <= _least(widest, widths[widest]):
            break
        widths[widest] -= 1
        excess -= 1
    if excess > 0 and "ID" in widths:
        widths["ID"] = max(min(NARROWEST, widths["ID"]), widths["ID"] - excess)
    return widths


def _least(column: str, width: int) -> int:
    return width if column == "ID" else min(width, NARROWEST)
