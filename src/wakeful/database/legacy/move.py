"""Moves rows of a home-made table into the queue and back, a batch a transaction.

A batch is all or nothing: the jobs, the ledger's rows and the rows' removal commit together. So a mover that is killed
loses nothing, and whoever goes on, doubles nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import psycopg

from wakeful.database.fetch import fetch
from wakeful.database.legacy.catalogue import Found
from wakeful.database.legacy.compose import Choice, Query, count_states, pick, read, remove, restore
from wakeful.statements import importing
from wakeful.values.errors import ConfigError, InvalidOption, Refused

# What is wrong with a row, as opposed to with the server or the connection.
_UNFIT = (psycopg.DataError, psycopg.IntegrityError, InvalidOption, Refused)


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of some rows. `last` is the last key that was looked at; None when there was no row left."""

    last: str | None
    actions: Counter[str] = field(default_factory=Counter)
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def moved(self) -> int:
        """How many rows are jobs because of this batch."""
        return self.actions.total() - self.actions["known"]


@dataclass(frozen=True, slots=True)
class Returned:
    """How many rows a batch has put back, and which it could not."""

    moved: int
    refused: Mapping[str, str]


def move(
    conn: psycopg.Connection[Any], found: Found, choice: Choice, size: int, *, keep: bool = True
) -> Iterator[Batch]:
    """Batch after batch, to the end of the table, and again while a pass moves as much as a batch.

    A pass goes by the key once, so a row that is locked, too young or refused stops nothing. Without `keep` one batch
    is tried and undone. ConfigError when a page ends where another one did: such keys would go round for ever.
    """
    moved = size
    while moved >= size:
        moved, after, ends = 0, None, set[str]()
        while (batch := _move_batch(conn, found, choice, after, size, keep)).last is not None:
            if batch.last in ends:
                raise ConfigError("key", _goes_round(found, batch.last))
            ends.add(batch.last)
            moved, after = moved + batch.moved, batch.last
            yield batch
            if not keep:
                return


def move_back(conn: psycopg.Connection[Any], found: Found, size: int, actor: str | None) -> Iterator[Returned]:
    """Return what was never started, batch after batch.

    A row that the table does not take back is named, and its job stays: the batch is undone and done without it.
    """
    passed_over = set[str]()
    while True:
        refused: dict[str, str] = {}
        with _batch(conn, found) as transaction:
            rows = fetch(conn, importing.return_rows(found.mapping.source, size, actor, passed_over))
            _put_back(conn, found, rows, refused)
            if refused:
                raise psycopg.Rollback(transaction)
        passed_over |= refused.keys()
        if not rows:
            return
        yield Returned(0 if refused else len(rows), refused)


def kept(conn: psycopg.Connection[Any], found: Found) -> dict[str, int]:
    """How many rows do not go back, by the reason."""
    return fetch(conn, importing.kept_rows(found.mapping.source))


def states(conn: psycopg.Connection[Any], found: Found) -> dict[str, int]:
    """How many rows the table has of each of its words."""
    return {str(word): count for word, count in conn.execute(*count_states(found)).fetchall()}


def moment_before(conn: psycopg.Connection[Any], age: timedelta) -> datetime:
    """The moment this long ago, by the queue's clock."""
    return fetch(conn, importing.moment_before(age))


def _move_batch(
    conn: psycopg.Connection[Any], found: Found, choice: Choice, after: str | None, size: int, keep: bool
) -> Batch:
    refused: dict[str, str] = {}
    with _batch(conn, found) as transaction:
        query, params = pick(found, choice, after, size)
        keys: list[str] = [key for (key,) in conn.execute(query, params).fetchall()]
        arrived = _take_in(conn, found, keys, refused)
        if arrived and (removal := remove(found, [one.key for one in arrived])):
            _change(conn, removal)
        if not keep:
            raise psycopg.Rollback(transaction)
    return Batch(keys[-1] if keys else None, Counter(one.action for one in arrived), tuple(refused.items()))


def _take_in(
    conn: psycopg.Connection[Any], found: Found, keys: Sequence[str], refused: dict[str, str]
) -> list[importing.Arrival]:
    """Make jobs of the rows; halves them to find one that cannot be read, or cannot be a job."""
    if not keys:
        return []
    try:
        with conn.transaction():
            rows = [row for (row,) in conn.execute(*read(found, keys)).fetchall()]
            if len(rows) < len(keys):
                raise InvalidOption("key", "does not read back as it is written: name one of another type.")
            return fetch(conn, importing.import_rows(found.mapping.source, rows))
    except _UNFIT as error:
        if len(keys) == 1:
            refused[keys[0]] = str(error).strip().partition("\n")[0]
            return []
    half = len(keys) // 2
    return [*_take_in(conn, found, keys[:half], refused), *_take_in(conn, found, keys[half:], refused)]


def _goes_round(found: Found, last: str) -> str:
    told = ".".join(found.mapping.table)
    return f"{found.mapping.key} of {told} leads from {last} back to it. Name a key that reads back as it is written."


def _put_back(
    conn: psycopg.Connection[Any], found: Found, rows: Sequence[tuple[str, str]], refused: dict[str, str]
) -> None:
    """Write the rows as they were; halves them to find one that the table does not take."""
    if not rows or (query := restore(found, [original for _, original in rows])) is None:
        return
    try:
        with conn.transaction():
            written = _change(conn, query)
            # An insert may be led elsewhere by a trigger; a row that is to be marked is there, or is lost.
            if found.mapping.take == "mark" and written < len(rows):
                raise InvalidOption("key", "has no row any more: there is nothing to give it back to.")
            return
    except _UNFIT as error:
        if len(rows) == 1:
            refused[rows[0][0]] = str(error).strip().partition("\n")[0]
            return
    half = len(rows) // 2
    _put_back(conn, found, rows[:half], refused)
    _put_back(conn, found, rows[half:], refused)


@contextmanager
def _batch(conn: psycopg.Connection[Any], found: Found) -> Iterator[psycopg.Transaction]:
    """A transaction in which times without a zone are read as the mapping says."""
    with conn.transaction() as transaction:
        try:
            conn.execute("select set_config('timezone', %s, true)", [found.mapping.timezone])
        except psycopg.DataError as error:
            raise ConfigError("timezone", f"{found.mapping.timezone} is not known to the server.") from error
        yield transaction


def _change(conn: psycopg.Connection[Any], query: Query) -> int:
    text, params = query
    return conn.execute(text, params).rowcount
