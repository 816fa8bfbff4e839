"""The one place where the fetcher sleeps: rung, brought forward, or run out, it wakes once."""

from __future__ import annotations

import asyncio

from wakeful.wake.alarm import Alarm


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def alarm_of() -> tuple[Alarm, Clock]:
    clock = Clock()
    return Alarm(clock), clock


async def test_a_ring_before_the_sleep_is_not_lost_and_wakes_once() -> None:
    alarm, clock = alarm_of()
    alarm.ring()
    alarm.ring()
    await alarm.sleep(clock.now + 3600)
    sleeping = asyncio.create_task(alarm.sleep(clock.now + 3600))
    await asyncio.sleep(0)
    assert not sleeping.done()
    alarm.ring()
    await sleeping


async def test_sleep_ends_at_its_own_end() -> None:
    loop = asyncio.get_running_loop()
    alarm = Alarm(loop.time)
    await alarm.sleep(loop.time() + 0.01)
    await alarm.sleep(loop.time() - 1)


async def test_an_earlier_timer_wakes_the_sleeper_to_sleep_less() -> None:
    alarm, clock = alarm_of()
    sleeping = asyncio.create_task(alarm.sleep(clock.now + 3600))
    await asyncio.sleep(0)
    alarm.due_in(5)
    await sleeping
    assert not alarm.came_due()
    clock.now += 5
    assert alarm.came_due()
    assert not alarm.came_due(), "answering takes it down"


async def test_a_later_poke_does_not_move_the_timer() -> None:
    alarm, clock = alarm_of()
    alarm.due_in(5)
    alarm.due_in(60)
    clock.now += 5
    assert alarm.came_due()
    clock.now += 3600
    assert not alarm.came_due()


async def test_what_the_table_says_takes_the_place_of_what_it_said_before() -> None:
    alarm, clock = alarm_of()
    alarm.table_says(5)
    alarm.table_says(60)
    clock.now += 5
    assert not alarm.came_due()
    alarm.table_says(None)
    clock.now += 3600
    assert not alarm.came_due()


async def test_what_a_poke_told_of_outlives_what_the_table_says() -> None:
    alarm, clock = alarm_of()
    alarm.due_in(5)
    alarm.table_says(None)
    clock.now += 5
    assert alarm.came_due()


async def test_a_timer_in_the_past_is_due_now() -> None:
    alarm, _ = alarm_of()
    alarm.due_in(-3)
    assert alarm.came_due()
    alarm.table_says(-3)
    assert alarm.came_due()
