"""A listener whose connection looks alive and hears nothing opens another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.simulation.virtual_loop import VirtualLoop, run_virtually
from wakeful.database.listen import Heard
from wakeful.values.errors import DatabaseUnavailable
from wakeful.wake.listener import DEAF_SECONDS, Listener

# Virtual seconds: they take no time.
CANARY_EVERY = 2.0
CANARY_WITHIN = 4.0


class Ear:
    """Hears canaries, or nothing at all, for ever."""

    def __init__(self, hears: bool) -> None:
        self.hears = hears
        self.said: asyncio.Queue[str] = asyncio.Queue()
        self.closed = False

    async def listen(self, hear: Callable[[Heard], None], /) -> None:
        while True:
            payload = await self.said.get()
            if self.hears:
                hear(Heard("wakeful", payload))

    async def close(self) -> None:
        self.closed = True


async def listen(ears: list[Ear], seconds: float) -> Listener:
    """Listen by these, one after the other, and send a canary every two seconds."""
    opened: list[Ear] = []

    async def open_ear() -> Ear:
        opened.append(ears[min(len(opened), len(ears) - 1)])
        return opened[-1]

    listener = Listener(open_ear, lambda notice: None, lambda: None)
    listening = asyncio.create_task(listener.run())
    clock = asyncio.get_running_loop().time
    while clock() < seconds:
        await asyncio.sleep(CANARY_EVERY)
        listener.check(clock())
        listener.expect_canary()
        opened[-1].said.put_nowait('{"canary": 1}')
        listener.canary_sent(clock() + 1)
    listening.cancel()
    return listener


def test_a_deaf_connection_is_opened_anew_and_hears_again() -> None:
    dead, living = Ear(hears=False), Ear(hears=True)
    listener = run_virtually(listen([dead, living], 3 * DEAF_SECONDS), VirtualLoop())
    assert dead.closed
    assert listener._deaf is False


def test_a_connection_that_hears_is_kept() -> None:
    living, spare = Ear(hears=True), Ear(hears=True)
    run_virtually(listen([living, spare], 10 * DEAF_SECONDS), VirtualLoop())
    assert spare.said.empty()


def test_nobody_looks_out_for_a_canary_that_a_lost_connection_should_have_heard() -> None:
    async def lose() -> Listener:
        ear = Ear(hears=True)
        losing = asyncio.Event()

        async def listen(hear: Callable[[Heard], None], /) -> None:
            await losing.wait()
            raise DatabaseUnavailable("The link is lost.")

        ear.listen = listen  # type: ignore[method-assign]

        async def open_ear() -> Ear:
            if losing.is_set():
                raise DatabaseUnavailable("Nobody answers.")
            return ear

        listener = Listener(open_ear, lambda notice: None, lambda: None)
        listening = asyncio.create_task(listener.run())
        await asyncio.sleep(CANARY_EVERY)
        listener.expect_canary()
        listener.canary_sent(asyncio.get_running_loop().time() + CANARY_WITHIN)
        assert listener.check_at is not None
        losing.set()
        await asyncio.sleep(2 * CANARY_WITHIN)
        listening.cancel()
        return listener

    assert run_virtually(lose(), VirtualLoop()).check_at is None


def test_behind_a_pooler_it_is_tried_again_now_and_then_and_no_more() -> None:
    ears = [Ear(hears=False) for _ in range(20)]
    run_virtually(listen(ears, 10 * DEAF_SECONDS), VirtualLoop())
    assert 7 <= sum(ear.closed for ear in ears) <= 10
