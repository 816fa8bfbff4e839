"""Settlements on their way: taken in sets, put back when their flush did not commit, halved around a bad row."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from wakeful.settle.flush import flush_halving, in_place_of, is_the_rows_fault
from wakeful.settle.gather import MOST, Gathering
from wakeful.values.errors import DatabaseUnavailable, LeaseLapsed
from wakeful.values.settlement import Completion, Ending, Refusal


def done(number: int) -> Completion:
    return Completion(UUID(int=number).bytes, 1, None)


def ending(number: int) -> Ending:
    return Ending(UUID(int=number), 1, "failed")


class ServerSays(Exception):
    """As a driver's error, which has a SQLSTATE."""

    def __init__(self, sqlstate: str | None) -> None:
        self.sqlstate = sqlstate


def test_completions_and_other_endings_are_taken_apart() -> None:
    gathering = Gathering()
    for one in (done(1), ending(2), done(3)):
        gathering.add(one)
    assert len(gathering) == 3
    assert gathering.claims() == {(UUID(int=number), 1) for number in (1, 2, 3)}
    assert gathering.take_done() == [done(1), done(3)]
    assert gathering.take_endings() == [ending(2)]
    assert len(gathering) == 0


def test_a_set_has_a_size() -> None:
    gathering = Gathering()
    for number in range(MOST + 1):
        gathering.add(done(number))
    assert len(gathering.take_done()) == MOST
    assert len(gathering.take_done()) == 1


def test_what_is_put_back_is_taken_again() -> None:
    gathering = Gathering()
    gathering.put_back([done(1), ending(2)])
    assert (gathering.take_done(), gathering.take_endings()) == ([done(1)], [ending(2)])


@pytest.mark.parametrize("bad", [set(), {0}, {7}, {15}, {3, 4}, set(range(16))])
async def test_bad_rows_are_found_and_block_none_of_the_others(bad: set[int]) -> None:
    written: list[int] = []
    apart: list[int] = []

    async def write(rows: Sequence[Completion]) -> list[Refusal]:
        numbers = [row.id.int for row in rows]
        if bad & set(numbers):
            raise ServerSays("22P05")
        written.extend(numbers)
        return [Refusal(row.id, "stale") for row in rows if row.id.int == 5]

    refused = await flush_halving([done(n) for n in range(16)], write, lambda row, _: apart.append(row.id.int))
    assert sorted(apart) == sorted(bad)
    assert sorted(written) == sorted(set(range(16)) - bad)
    assert [refusal.id.int for refusal in refused] == ([5] if 5 not in bad else [])


@pytest.mark.parametrize(
    "error",
    [DatabaseUnavailable("gone"), LeaseLapsed(), ServerSays("40P01"), ServerSays("53100"), ServerSays("57014")],
)
async def test_what_is_no_rows_fault_is_raised_as_it_is(error: Exception) -> None:
    async def write(rows: Sequence[Completion]) -> list[Refusal]:
        raise error

    apart: list[Completion] = []
    with pytest.raises(type(error)):
        await flush_halving([done(1), done(2)], write, lambda row, _: apart.append(row))
    assert apart == []


@pytest.mark.parametrize(
    ("error", "the_rows"),
    [
        (ServerSays("22P05"), True),
        (ServerSays("54000"), True),
        (ServerSays(None), True),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"), True),
        (ServerSays("40001"), False),
        (ServerSays("55P03"), False),
        (ServerSays("58030"), False),
    ],
)
def test_whose_fault_an_error_is(error: Exception, the_rows: bool) -> None:
    assert is_the_rows_fault(error) is the_rows


def test_in_its_place_stands_a_failure_without_a_further_start() -> None:
    instead = in_place_of(done(1), ValueError("odd"))
    assert (instead.id, instead.epoch, instead.outcome, instead.retry_in) == (UUID(int=1), 1, "failed", None)
    assert "ValueError" in str(instead.message)
