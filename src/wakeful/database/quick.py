"""Statements by libpq's own calls, on connections of our own.

A cursor finds out for each parameter of each call how its type is written. Ours are short texts: without that, a call
takes two thirds of the client's time. A job that waits to be started waits for two such calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import psycopg
from psycopg import generators, pq
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGconn, PGresult

from wakeful.statements.statement import Row, Statement
from wakeful.statements.written import Written, written

_Connection: TypeAlias = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

_PARAMETER: Final = re.compile(r"%\((\w+)\)s|%%")
_MOST_PREPARED: Final = 100
_BINARY: Final = pq.Format.BINARY
_IDLE: Final = pq.TransactionStatus.IDLE


class QuickConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection like any other, with a short way."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """As psycopg makes it."""
        super().__init__(*args, **options)
        self.short_way = ShortWay()

    def rows_of(self, statement: Statement[object]) -> Sequence[Row] | None:
        """Run it in a transaction of its own. None: nothing was done, since only a cursor can."""
        with self.lock:
            exchange = self.short_way.exchange(self, statement)
            return None if exchange is None else self.wait(exchange)


class AsyncQuickConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """The same for an event loop."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """As psycopg makes it."""
        super().__init__(*args, **options)
        self.short_way = ShortWay()

    async def rows_of(self, statement: Statement[object]) -> Sequence[Row] | None:
        """Run it in a transaction of its own. None: nothing was done, since only a cursor can."""
        async with self.lock:
            exchange = self.short_way.exchange(self, statement)
            return None if exchange is None else await self.wait(exchange)

    def send_now(self, statement: Statement[object]) -> bool:
        """Send it, if that takes no waiting; `answer` is to be called next. False: nothing was done."""
        return not self.lock.locked() and self.short_way.send_now(self, statement)

    async def answer(self, statement: Statement[object]) -> Sequence[Row]:
        """The rows of what was sent last, by `send_now`."""
        async with self.lock:
            return await self.wait(self.short_way.answer(self, statement))


class ShortWay:
    """What one connection has prepared. It does not hold the connection, which would outlive its last user."""

    def __init__(self) -> None:
        self._times: dict[bytes, int] = {}
        self._names: dict[bytes, bytes] = {}
        self._given = 0

    def exchange(self, conn: _Connection, statement: Statement[object]) -> PQGen[Sequence[Row]] | None:
        """What asks for its rows; None where only a cursor can, and in a transaction, which could not be repaired."""
        command = _command(statement.sql)
        values = self._values(conn, command, statement)
        return None if values is None else self._exchange(conn, command.text, values)

    def send_now(self, conn: _Connection, statement: Statement[object]) -> bool:
        """Send it, all of it; False where more than that is to be done, such as preparing it."""
        command = _command(statement.sql)
        name = self._names.get(command.text)
        values = self._values(conn, command, statement)
        if values is None or (name is None and conn.prepare_threshold is not None):
            return False
        self._send(conn, name, command.text, values)
        return conn.pgconn.flush() == 0

    def answer(self, conn: _Connection, statement: Statement[object]) -> PQGen[Sequence[Row]]:
        """The rows of what `send_now` has sent."""
        try:
            return _rows(conn, (yield from _answer(conn.pgconn)))
        except psycopg.errors.InvalidSqlStatementName:
            self._names.clear()
            command = _command(statement.sql)
            return (yield from self._exchange(conn, command.text, _texts(command.names, statement.params) or []))

    def _values(self, conn: _Connection, command: _Command, statement: Statement[object]) -> list[bytes | None] | None:
        pgconn = conn.pgconn
        values = _texts(command.names, statement.params)
        if (
            values is None
            or pgconn.transaction_status != _IDLE
            or pgconn.pipeline_status
            or pgconn.parameter_status(b"client_encoding") != b"UTF8"
        ):
            return None
        return values

    def _exchange(self, conn: _Connection, command: bytes, values: list[bytes | None]) -> PQGen[Sequence[Row]]:
        try:
            result = yield from self._sent(conn, command, values)
        except psycopg.errors.InvalidSqlStatementName:
            # psycopg gives up all that is prepared, ours too, when something was dropped or rolled back.
            self._names.clear()
            result = yield from self._sent(conn, command, values)
        return _rows(conn, result)

    def _sent(self, conn: _Connection, command: bytes, values: list[bytes | None]) -> PQGen[PGresult]:
        name = self._names.get(command) or (yield from self._prepare(conn, command))
        self._send(conn, name, command, values)
        return (yield from _answer(conn.pgconn))

    def _send(self, conn: _Connection, name: bytes | None, command: bytes, values: list[bytes | None]) -> None:
        if name is None:
            conn.pgconn.send_query_params(command, values, result_format=_BINARY)
        else:
            conn.pgconn.send_query_prepared(name, values, result_format=_BINARY)

    def _prepare(self, conn: _Connection, command: bytes) -> PQGen[bytes | None]:
        """Its name from now on, once it was sent as often as psycopg sends what it then prepares."""
        threshold, times = conn.prepare_threshold, self._times.get(command, 0) + 1
        self._times[command] = times
        if threshold is None or times <= threshold or len(self._names) >= _MOST_PREPARED:
            return None
        self._given += 1
        name = f"wakeful_{self._given}".encode()
        conn.pgconn.send_prepare(name, command)
        yield from _answer(conn.pgconn)
        self._names[command] = name
        return name


def _rows(conn: _Connection, result: PGresult) -> Sequence[Row]:
    if result.status != pq.ExecStatus.TUPLES_OK:
        return []
    reader = Transformer(conn)
    reader.set_pgresult(result, format=_BINARY)
    return reader.load_rows(0, result.ntuples, tuple)


def _answer(pgconn: PGconn) -> PQGen[PGresult]:
    results = yield from generators.execute(pgconn)
    if not results:
        raise psycopg.OperationalError("the server hung up without an answer")
    result: PGresult = results[-1]
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
    return params.texts if type(params) is Written else written([params[name] for name in names])
