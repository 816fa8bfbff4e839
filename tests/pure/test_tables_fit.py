"""Tables on a terminal: how wide each column may be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.edges.cli.fitting import NARROWEST, fit
from wakeful.edges.cli.showing import age

WIDTHS = st.dictionaries(st.sampled_from(["ID", "TASK", "QUEUE", "ERROR", "AGE"]), st.integers(1, 300), min_size=1)


def test_what_fits_is_left_as_it_is() -> None:
    assert fit({"ID": 36, "TASK": 20}, 80) == {"ID": 36, "TASK": 20}


def test_the_longest_texts_give_way_first_and_ids_never() -> None:
    assert fit({"ID": 36, "TASK": 20, "ERROR": 500}, 80) == {"ID": 36, "TASK": 20, "ERROR": 21}
    assert fit({"ID": 36, "TASK": 200, "ERROR": 200}, 80)["ID"] == 36


def test_spare_columns_go_where_there_is_no_room() -> None:
    assert "QUEUE" not in fit({"ID": 36, "TASK": 20, "QUEUE": 20, "ERROR": 20}, 60, ["QUEUE"])
    assert "QUEUE" in fit({"ID": 36, "TASK": 20, "QUEUE": 20, "ERROR": 20}, 100, ["QUEUE"])


@given(WIDTHS, st.integers(20, 300))
def test_no_column_grows_and_the_line_fits_where_it_can(natural: dict[str, int], room: int) -> None:
    widths = fit(natural, room)
    assert all(widths[name] <= natural[name] for name in widths)
    least = sum(min(width, NARROWEST) + 1 for width in natural.values())
    assert sum(widths.values()) + len(widths) <= max(room, least)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0s"), (-0.5, "0s"), (59, "59s"), (119, "119s"), (120, "2m"), (7200, "2h"), (200_000, "2d"), (-90, "in 90s")],
)
def test_an_age_is_told_in_the_largest_unit_that_says_something(seconds: float, told: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert age(now - timedelta(seconds=seconds), now) == told
    assert age(None) == ""
