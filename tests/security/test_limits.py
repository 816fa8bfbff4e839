"""Payload bombs and names at every limit, one below and one above it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from wakeful.app import Wakeful
from wakeful.payload.faults import MOST_LEVELS
from wakeful.testing import Database
from wakeful.values.errors import InvalidOption, PayloadError, WakefulError

LIMIT_BYTES = 262_144
FRAME = len('{"value":""}')


@pytest.fixture
async def app(database: Database) -> AsyncIterator[Wakeful]:
    async with Wakeful(database.dsn) as made:

        @made.task(name="t")
        async def t(value: Any) -> None:
            pass

        yield made


def nested(levels: int) -> Any:
    """Lists in lists; the payload itself is the first level."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


async def taken(app: Wakeful, payload: object, **options: Any) -> bool:
    """Whether it is let in; a refusal is one sentence."""
    try:
        await app.tasks["t"].using(**options).aenqueue(payload)
    except (InvalidOption, PayloadError) as refused:
        return "\n" in str(refused)
    return True


@pytest.mark.parametrize(("size", "fits"), [(LIMIT_BYTES - 1, True), (LIMIT_BYTES, True), (LIMIT_BYTES + 1, False)])
async def test_a_payload_is_as_large_as_the_limit_and_not_a_byte_more(app: Wakeful, size: int, fits: bool) -> None:
    assert await taken(app, "x" * (size - FRAME)) is fits


async def test_a_payload_nests_as_deep_as_it_may_and_no_deeper(app: Wakeful) -> None:
    let_in = [levels for levels in range(MOST_LEVELS + 3) if await taken(app, nested(levels))]
    assert let_in == list(range(len(let_in))), "up to a depth, and none beyond"
    assert abs(len(let_in) - MOST_LEVELS) <= 1
    assert not await taken(app, nested(100_000))


@pytest.mark.parametrize(
    ("option", "limit"), [("queue", 100), ("tenant", 200), ("created_by", 200), ("dedup_key", 2000)]
)
async def test_names_are_as_long_as_the_limit_in_bytes(app: Wakeful, option: str, limit: int) -> None:
    for letter in ("x", "é"):
        most = limit // len(letter.encode())
        assert await taken(app, 1, **{option: letter * (most - 1)})
        assert await taken(app, 1, **{option: letter * most})
        # A longer key than the column takes is hashed, not cut.
        assert await taken(app, 1, **{option: letter * (most + 1)}) is (option == "dedup_key" and await hashes(app))


async def hashes(app: Wakeful) -> bool:
    """Whether a key of any length is taken."""
    return await taken(app, 1, dedup_key="y" * 5000)


@pytest.mark.parametrize(("option", "least", "most"), [("priority", -100, 100), ("max_attempts", 1, 10_000)])
async def test_numbers_stay_within_their_bounds(app: Wakeful, option: str, least: int, most: int) -> None:
    taken_at = {number: await taken(app, 1, **{option: number}) for number in (least - 1, least, most, most + 1)}
    assert list(taken_at.values()) == [False, True, True, False]


@pytest.mark.parametrize("bomb", [float("nan"), float("inf"), "\ud800", {"a" * 10: {1, 2}}, 10**400, b"\xff" * 10])
async def test_what_json_cannot_hold_is_refused_or_made_plain_and_never_half_stored(app: Wakeful, bomb: Any) -> None:
    refusal = ""
    try:
        await app.tasks["t"].aenqueue(bomb)
    except WakefulError as refused:
        refusal = str(refused)
    assert "\n" not in refusal


async def test_numbers_and_keys_without_end_do_not_take_the_producer_down(app: Wakeful) -> None:
    assert await taken(app, {str(n): n for n in range(10_000)})
    assert not await taken(app, {str(n): n for n in range(100_000)})
