"""Statements by libpq's own calls, on connections of our own.

A cursor finds out for each parameter of each call how its type is written. Ours are short texts: without that, a call
takes two thirds of the client's time. A job that waits to be started waits for two such calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import generators, pq
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGresult

from wakeful.statements.arrays import array_of, text_of
from wakeful.statements.statement import Row, Statement

_PARAMETER: Final = re.compile(r"%\((\w+)\)s|%%")
_MOST_PREPARED: Final = 100
_BINARY: Final = pq.Format.BINARY
_IDLE: Final = pq.TransactionStatus.IDLE


class QuickConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection like any other, with a short way."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """As psycopg makes it."""
        super().__init__(*args, **options)
        self.short_way = ShortWay(self)

    def rows_of(self, statement: Statement[object]) -> Sequence[Row] | None:
        """Run it in a transaction of its own. None: nothing was done, since only a cursor can."""
        with self.lock:
            exchange = self.short_way.exchange(statement)
            return None if exchange is None else self.wait(exchange)


class AsyncQuickConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """The same for an event loop."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """As psycopg makes it."""
        super().__init__(*args, **options)
        self.short_way = ShortWay(self)

    async def rows_of(self, statement: Statement[object]) -> Sequence[Row] | None:
        """Run it in a transaction of its own. None: nothing was done, since only a cursor can."""
        async with self.lock:
            exchange = self.short_way.exchange(statement)
            return None if exchange is None else await self.wait(exchange)


class ShortWay:
    """What is said on one connection, and what it has prepared."""

    def __init__(self, conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
        self._conn = conn
        self._reader = Transformer(conn)
        self._times: dict[bytes, int] = {}
        self._names: dict[bytes, bytes] = {}
        self._given = 0

    def exchange(self, statement: Statement[object]) -> PQGen[Sequence[Row]] | None:
        """What asks for its rows; None where only a cursor can, and in a transaction, which could not be repaired."""
        pgconn, command = self._conn.pgconn, _command(statement.sql)
        values = _texts(command.names, statement.params)
        if (
            values is None
            or pgconn.transaction_status != _IDLE
            or pgconn.pipeline_status
            or pgconn.parameter_status(b"client_encoding") != b"UTF8"
        ):
            return None
        return self._exchange(command.text, values)

    def _exchange(self, command: bytes, values: list[bytes | None]) -> PQGen[Sequence[Row]]:
        try:
            result = yield from self._sent(command, values)
        except psycopg.errors.InvalidSqlStatementName:
            # psycopg gives up all that is prepared, ours too, when something was dropped or rolled back.
            self._names.clear()
            result = yield from self._sent(command, values)
        if result.status != pq.ExecStatus.TUPLES_OK:
            return []
        self._reader.set_pgresult(result, format=_BINARY)
        return self._reader.load_rows(0, result.ntuples, tuple)

    def _sent(self, command: bytes, values: list[bytes | None]) -> PQGen[PGresult]:
        name = self._names.get(command) or (yield from self._prepare(command))
        if name is None:
            self._conn.pgconn.send_query_params(command, values, result_format=_BINARY)
        else:
            self._conn.pgconn.send_query_prepared(name, values, result_format=_BINARY)
        return (yield from self._answer())

    def _prepare(self, command: bytes) -> PQGen[bytes | None]:
        """Its name from now on, once it was sent as often as psycopg sends what it then prepares."""
        threshold, times = self._conn.prepare_threshold, self._times.get(command, 0) + 1
        self._times[command] = times
        if threshold is None or times <= threshold or len(self._names) >= _MOST_PREPARED:
            return None
        self._given += 1
        name = f"wakeful_{self._given}".encode()
        self._conn.pgconn.send_prepare(name, command)
        yield from self._answer()
        self._names[command] = name
        return name

    def _answer(self) -> PQGen[PGresult]:
        result: PGresult = (yield from generators.execute(self._conn.pgconn))[-1]
        if result.status == pq.ExecStatus.FATAL_ERROR:
            raise error_from_result(result)
        return result


class _Command(NamedTuple):
    text: bytes
    names: tuple[str, ...]


@lru_cache(maxsize=256)
def _command(sql: str) -> _Command:
    """With numbers in the place of names."""
    places: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        name = found[1]
        return f"${places.setdefault(name, len(places) + 1)}" if name else "%"

    return _Command(_PARAMETER.sub(numbered, sql).encode(), tuple(places))


def _texts(names: tuple[str, ...], params: Mapping[str, object]) -> list[bytes | None] | None:
    """The parameters as PostgreSQL reads them; None where that is for a cursor to say, or to refuse."""
    texts: list[bytes | None] = []
    for name in names:
        value = params[name]
        if value is None:
            texts.append(None)
            continue
        try:
            text = (value if type(value) is str else _written(value)).encode()
        except (TypeError, UnicodeEncodeError):
            return None
        # libpq ends a text at its first zero byte.
        if b"\0" in text:
            return None
        texts.append(text)
    return texts


def _written(value: object) -> str:
    return array_of(value) if isinstance(value, list) else text_of(value) or ""
