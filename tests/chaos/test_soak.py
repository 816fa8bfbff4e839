"""What the soak calls growth, and what it lets pass."""

from __future__ import annotations

import pytest

from tests.chaos.soak import Sample, judged, told


def over_an_hour(rss: float = 0.0, descriptors: float = 0.0, table: float = 0.0) -> list[Sample]:
    """A hundred samples that grow by so much in the hour."""
    return [
        Sample(
            n / 100, 80 + rss * n / 100, round(40 + descriptors * n / 100), {"job": 30 + table * n / 100, "gate": 20}
        )
        for n in range(100)
    ]


def test_what_stays_as_it_is_is_no_growth() -> None:
    assert judged(over_an_hour(rss=0.9, descriptors=1, table=5)) == []


@pytest.mark.parametrize("grown", [{"rss": 1.5}, {"descriptors": 30}, {"table": 40}])
def test_what_grows_is_told(grown: dict[str, float]) -> None:
    assert len(judged(over_an_hour(**grown))) == 1


def test_the_table_that_grew_is_named() -> None:
    assert "most of it job: 46.8 to 75.2" in judged(over_an_hour(table=50))[0]


def test_too_few_samples_tell_nothing() -> None:
    assert judged(over_an_hour()[:5]) == ["too short to tell: give more --hours"]


def test_what_is_told_is_what_is_judged() -> None:
    assert "tables 66.8 to 95.2 MB" in told(over_an_hour(table=50))
