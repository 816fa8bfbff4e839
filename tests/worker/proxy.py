"""A link to the server that a test can cut at the worst moment, or stop without cutting it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from psycopg.conninfo import conninfo_to_dict, make_conninfo

CHUNK_BYTES = 65536


class Counter:
    """Counts the statements that a client sends: simple queries, and executions of parsed or prepared ones."""

    def __init__(self) -> None:
        self._bytes = b""
        self._begun = False
        self.statements = 0

    def take(self, chunk: bytes) -> None:
        """The next bytes that the client sends."""
        self._bytes += chunk
        # Before a session begins, messages have no kind: a request for encryption, then the start itself.
        while len(self._bytes) >= (head := 5 if self._begun else 4):
            length = int.from_bytes(self._bytes[head - 4 : head]) + head - 4
            if len(self._bytes) < length:
                return
            if self._begun:
                self.statements += self._bytes[:1] in (b"Q", b"E")
            else:
                self._begun = int.from_bytes(self._bytes[4:8]) >> 16 == 3
            self._bytes = self._bytes[length:]


class Link:
    """Passes bytes on, both ways. `open` is cleared to let nothing through, without anyone noticing."""

    def __init__(self, dsn: str) -> None:
        self._to = conninfo_to_dict(dsn)
        self._dsn = dsn
        self._port = 0
        self._lost_call: bytes | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._counters: list[Counter] = []
        self.open = asyncio.Event()
        self.open.set()
        self.cut = asyncio.Event()

    @property
    def dsn(self) -> str:
        """The way to the server over this link."""
        return make_conninfo(self._dsn, host="127.0.0.1", port=self._port)

    @property
    def statements(self) -> int:
        """How many were sent over this link, BEGIN, COMMIT and LISTEN included."""
        return sum(counter.statements for counter in self._counters)

    def lose_answer_to(self, call: str) -> None:
        """The next call with this text is taken by the server; then the connection breaks, before the answer."""
        self.cut.clear()
        self._lost_call = call.encode()

    async def serve(self, ours: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """One connection, until either end hangs up or the link is closed."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        ends = [client]
        try:
            server, theirs = await asyncio.open_connection(str(self._to["host"]), int(str(self._to["port"])))
            ends.append(theirs)
            doomed = asyncio.Event()
            ways = {
                asyncio.create_task(self._pass_on(ours, theirs, asks=doomed)),
                asyncio.create_task(self._pass_on(server, client, hears=doomed)),
            }
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            # All of them first: who is told to hang up while it waits for one must not leave the other open.
            for end in ends:
                end.close()
            for end in ends:
                with suppress(OSError, asyncio.CancelledError):
                    await end.wait_closed()
            self._serving.discard(task)

    async def close(self) -> None:
        """Hang up on everyone."""
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _pass_on(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        *,
        asks: asyncio.Event | None = None,
        hears: asyncio.Event | None = None,
    ) -> None:
        counter = Counter()
        if asks is not None:
            self._counters.append(counter)
        while chunk := await source.read(CHUNK_BYTES):
            await self.open.wait()
            counter.take(chunk)
            if asks is not None and self._lost_call is not None and self._lost_call in chunk:
                self._lost_call = None
                asks.set()
            if hears is not None and hears.is_set():
                # What the server answers comes after its commit.
                self.cut.set()
                return
            target.write(chunk)
            with suppress(OSError):
                await target.drain()


@asynccontextmanager
async def link_to(dsn: str) -> AsyncIterator[Link]:
    """A link, closed at the end."""
    link = Link(dsn)
    server = await asyncio.start_server(link.serve, "127.0.0.1", 0)
    link._port = server.sockets[0].getsockname()[1]
    try:
        yield link
    finally:
        link.open.set()
        server.close()
        await link.close()
