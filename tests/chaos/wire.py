"""A link between workers or producers and the server that knows the protocol, and can be cut at any message of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

from psycopg.conninfo import make_conninfo

from tests.worker.proxy import CHUNK_BYTES, Link

Side = Literal["client", "server"]

# What a statement is about, by the text that gives it away.
VERBS = {
    "settle": (b"wakeful.complete", b"wakeful.settle_1"),
    "heartbeat": (b"wakeful.pulse_1", b"wakeful.beat_1"),
    "claim": (b"wakeful.claim_1", b"wakeful.claim_poked_1"),
    "enqueue": (b"wakeful.enqueue",),
    "commit": (b"COMMIT",),
}
_STARTUP, _PLAIN_PROTOCOL = 4, 3


@dataclass(frozen=True, slots=True)
class Cut:
    """Where: the nth message, counted from 0, that this side sends while the verb is under way."""

    verb: str
    side: Side
    nth: int


@dataclass(slots=True)
class Talk:
    """One connection: what was prepared on it, what is under way, and what each side has said since that began."""

    prepared: dict[bytes, bytes] = field(default_factory=dict)
    begun: bool = False
    raw_answers: int = 0
    name: bytes = b""
    verb: str | None = None
    said: dict[Side, int] = field(default_factory=dict)
    silent: bool = False
    ends: list[asyncio.StreamWriter] = field(default_factory=list)


class Wire(Link):
    """As its base. `cut_at` arms one cut, `cuts` are those that happened; `missed`: there is no such message."""

    def __init__(self, dsn: str, host: str) -> None:
        super().__init__(dsn)
        self._host = host
        self._talks: dict[asyncio.Event, Talk] = {}
        self._armed: Cut | None = None
        self._loop = asyncio.get_running_loop()
        self.cuts: list[tuple[Cut, str]] = []
        self.missed = threading.Event()

    # Called from any thread.

    @property
    def dsn(self) -> str:
        """The way to the server over this wire."""
        return make_conninfo(self._dsn, host=self._host, port=self._port)

    def cut_at(self, cut: Cut) -> None:
        """The next message at this place is not passed on: both ends lose the connection there."""
        self.missed.clear()
        self._armed = cut

    def pause(self) -> None:
        """Let nothing through, without anyone noticing."""
        self._loop.call_soon_threadsafe(self.open.clear)

    def resume(self) -> None:
        """Let everything through again, what was held up included."""
        self._loop.call_soon_threadsafe(self.open.set)

    def silence(self, name: str) -> int:
        """Let nothing more through on the connections of this name, for ever, and hang up on nobody; how many."""
        found = self._named(name)
        for talk in found:
            talk.silent = True
        return len(found)

    def hang_up(self, name: str) -> int:
        """End the connections of this name, which both ends notice; how many."""
        found = self._named(name)
        for talk in found:
            for end in talk.ends:
                self._loop.call_soon_threadsafe(end.close)
        return len(found)

    def _named(self, name: str) -> list[Talk]:
        return [talk for talk in list(self._talks.values()) if name.encode() in talk.name and not talk.silent]

    # Called on its loop.

    async def serve(self, ours: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """As its base. That nobody answers, or that the wire is taken away, is nothing to be told on a terminal."""
        with suppress(OSError, asyncio.CancelledError):
            await super().serve(ours, client)

    async def _pass_on(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        *,
        asks: asyncio.Event | None = None,
        hears: asyncio.Event | None = None,
    ) -> None:
        side: Side = "client" if asks is not None else "server"
        key = asks or hears
        assert key is not None
        talk = self._talks.setdefault(key, Talk())
        talk.ends.append(target)
        pending = b""
        try:
            while chunk := await source.read(CHUNK_BYTES):
                await self.open.wait()
                pending += chunk
                while message := first_message(pending, talk, side):
                    pending = pending[len(message) :]
                    if self._is_the_cut(talk, side, message):
                        return
                    if not talk.silent:
                        target.write(message)
                with suppress(OSError):
                    await target.drain()
        finally:
            self._talks.pop(key, None)

    def _is_the_cut(self, talk: Talk, side: Side, message: bytes) -> bool:
        if side == "client":
            note(talk, message)
        if talk.verb is None or not talk.begun:
            return False
        nth = talk.said.get(side, 0)
        talk.said[side] = nth + 1
        if self._armed == Cut(talk.verb, side, nth):
            self.cuts.append((self._armed, message[:1].decode("latin-1")))
            self._armed = None
            return True
        if side == "server" and message[:1] == b"Z":
            if self._armed is not None and self._armed.verb == talk.verb and talk.said.get(self._armed.side, 0) > 0:
                self.missed.set()
            talk.verb = None
        return False


def first_message(pending: bytes, talk: Talk, side: Side) -> bytes:
    """The first whole message of these bytes; empty when there is none."""
    if side == "server" and talk.raw_answers and pending:
        # Yes or no to a request for encryption is one byte.
        talk.raw_answers -= 1
        return pending[:1]
    head = 5 if side == "server" or talk.begun else _STARTUP
    if len(pending) < head:
        return b""
    length = int.from_bytes(pending[head - 4 : head]) + head - 4
    return pending[:length] if len(pending) >= length else b""


def note(talk: Talk, message: bytes) -> None:
    """What a client's message tells of the connection."""
    if not talk.begun:
        talk.begun = int.from_bytes(message[4:8]) >> 16 == _PLAIN_PROTOCOL
        talk.raw_answers += not talk.begun
        talk.name = message
        return
    kind, body = message[:1], message[5:]
    sql: bytes | None = None
    if kind == b"Q":
        sql = body
    elif kind == b"P":
        name, _, rest = body.partition(b"\0")
        sql = talk.prepared[name] = rest.partition(b"\0")[0]
    elif kind == b"B":
        sql = talk.prepared.get(body.split(b"\0", 2)[1])
    if sql is not None and (verb := verb_of(sql)) is not None and talk.verb is None:
        talk.verb, talk.said = verb, {}


def verb_of(sql: bytes) -> str | None:
    """What a statement is about; None for what is of no interest here."""
    return next((verb for verb, marks in VERBS.items() if any(mark in sql for mark in marks)), None)


@contextmanager
def wire_to(dsn: str, host: str = "127.0.0.1") -> Iterator[Wire]:
    """A wire that is to be had at this address, served by a thread of its own until the block ends."""
    made: list[Wire] = []
    ready, over = threading.Event(), threading.Event()

    async def serve() -> None:
        wire = Wire(dsn, host)
        server = await asyncio.start_server(wire.serve, host, 0)
        wire._port = server.sockets[0].getsockname()[1]
        made.append(wire)
        ready.set()
        await asyncio.to_thread(over.wait)
        wire.open.set()
        server.close()
        await wire.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="wire", daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield made[0]
    finally:
        over.set()
        thread.join(10)
