"""The waiting room of `app.queue`, by a clock of its own: who is rung, when, and what is declared."""

from __future__ import annotations

import math
from concurrent.futures import Future
from datetime import timedelta

import pytest

from wakeful.queue.room import A_MOMENT, DECLARED_FOR, Room, Waiter, Wants

ALL = Wants(None, None)
POLL = 20.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def room(clock: Clock) -> Room:
    return Room(lambda: None, clock)


def sleep(room: Room, waiter: Waiter, due_in: float | None = None) -> Future[None]:
    """One look that finds nothing."""
    return room.rest(waiter, room.begin(waiter, False), due_in, POLL)


def asleep(room: Room, clock: Clock, wants: Wants = ALL) -> tuple[Waiter, Future[None]]:
    """A waiter that sleeps, with nothing due before the poll."""
    waiter = room.enter(wants)
    sleep(room, waiter)
    clock.now += A_MOMENT
    bell = sleep(room, waiter)
    assert not bell.done()
    return waiter, bell


def test_who_declares_first_looks_once_more_after_a_moment(room: Room, clock: Clock) -> None:
    waiter = room.enter(ALL)
    bell = sleep(room, waiter)
    assert room.attend() == clock.now + A_MOMENT
    clock.now += A_MOMENT
    room.attend()
    assert bell.done()
    assert not sleep(room, waiter).done()
    assert room.attend() == clock.now + POLL


def test_a_second_waiter_that_comes_within_the_moment_does_not_take_that_look_away(room: Room, clock: Clock) -> None:
    first, second = room.enter(ALL), room.enter(ALL)
    bells = [sleep(room, first), sleep(room, second)]
    clock.now += A_MOMENT
    room.attend()
    assert sum(bell.done() for bell in bells) == 1


def test_a_poke_rings_one_of_those_who_want_the_same(room: Room, clock: Clock) -> None:
    sleepers = [asleep(room, clock) for _ in range(4)]
    room.poked("default", 0)
    assert [bell.done() for _, bell in sleepers] == [True, False, False, False]
    room.poked("default", 0)
    assert [bell.done() for _, bell in sleepers] == [True, True, False, False]


def test_a_poke_for_a_queue_that_nobody_wants_rings_nobody(room: Room, clock: Clock) -> None:
    _, mail = asleep(room, clock, Wants(frozenset({"mail"}), None))
    _, other = asleep(room, clock, Wants(frozenset({"other"}), None))
    room.poked("third", 0)
    assert not mail.done()
    room.poked("mail", 0)
    assert mail.done()
    assert not other.done()


def test_a_poke_for_later_sets_the_timer(room: Room, clock: Clock) -> None:
    _, bell = asleep(room, clock)
    room.poked("default", 5)
    assert not bell.done()
    assert room.attend() == clock.now + 5
    clock.now += 5
    room.attend()
    assert bell.done()


def test_what_is_due_rings_at_its_moment_and_not_before(room: Room, clock: Clock) -> None:
    waiter, _ = asleep(room, clock)
    bell = sleep(room, waiter, due_in=3.0)
    clock.now += 3.0
    room.attend()
    assert not bell.done(), "a millisecond later, lest it come too early again and again"
    clock.now += 0.002
    room.attend()
    assert bell.done()


def test_what_is_due_is_told_from_the_beginning_of_a_look_however_long_that_takes(room: Room, clock: Clock) -> None:
    waiter, _ = asleep(room, clock)
    look = room.begin(waiter, False)
    clock.now += 2.0
    bell = room.rest(waiter, look, 3.0, POLL)
    clock.now += 1.01
    room.attend()
    assert bell.done()


def test_a_poke_that_comes_during_a_look_is_not_forgotten(room: Room, clock: Clock) -> None:
    waiter, _ = asleep(room, clock)
    look = room.begin(waiter, False)
    room.poked("default", 0)
    bell = room.rest(waiter, look, None, POLL)
    room.attend()
    assert bell.done()
    look = room.begin(waiter, False)
    room.poked("default", 7)
    room.rest(waiter, look, None, POLL)
    assert room.attend() == clock.now + 7


def test_the_bell_of_one_that_leaves_rings_for_another(room: Room, clock: Clock) -> None:
    first, bell = asleep(room, clock)
    _, other = asleep(room, clock)
    room.poked("default", 0)
    assert (bell.done(), other.done()) == (True, False)
    room.leave(first)
    assert other.done()


def test_a_bell_that_its_waiter_has_given_up_is_passed_over(room: Room, clock: Clock) -> None:
    _, bell = asleep(room, clock)
    _, other = asleep(room, clock)
    bell.cancel()
    room.poked("default", 0)
    assert other.done()
    assert not other.cancelled()


def test_the_poll_rings_one_of_a_group(room: Room, clock: Clock) -> None:
    sleepers = [asleep(room, clock) for _ in range(3)]
    clock.now += POLL
    room.attend()
    assert sum(bell.done() for _, bell in sleepers) == 1
    assert math.isinf(room.attend()), "until that one has looked, nothing is due"


def test_the_declaration_names_all_queues_that_are_waited_for(room: Room) -> None:
    mail, other = room.enter(Wants(frozenset({"mail"}), None)), room.enter(Wants(frozenset({"a", "b"}), None))
    look = room.begin(mail, False)
    assert look.declaration is not None
    assert look.declaration.queues == {"mail", "a", "b"}
    assert look.declaration.lasts == DECLARED_FOR
    assert look.declaration.others
    everything = room.enter(ALL)
    look = room.begin(other, False)
    assert look.declaration is not None
    assert look.declaration.queues is None
    room.leave(everything)


def test_whoever_is_not_covered_any_more_declares_again(room: Room, clock: Clock) -> None:
    mail = room.enter(Wants(frozenset({"mail"}), None))
    early = room.begin(mail, False)
    _, other = asleep(room, clock, Wants(frozenset({"other"}), None))
    # The look that began before the other came in declares, last, only its own queue.
    room.rest(mail, early, None, POLL)
    assert other.done()


def test_the_last_look_of_the_last_waiter_takes_the_declaration_back(room: Room, clock: Clock) -> None:
    first, _ = asleep(room, clock)
    second, bell = asleep(room, clock)
    look = room.begin(first, True)
    assert look.declaration is None, "the other one waits on"
    room.found(look)
    room.leave(first)
    assert not room.sleeps_for_nobody()
    look = room.begin(second, True)
    assert look.declaration is not None
    assert look.declaration.lasts == timedelta(0)
    room.found(look)
    room.leave(second)
    assert not room.sleeps_for_nobody()
    assert room.is_empty()
    assert not bell.done()


def test_who_came_in_while_the_declaration_was_taken_back_declares_again(room: Room, clock: Clock) -> None:
    first, _ = asleep(room, clock)
    look = room.begin(first, False)
    second = room.enter(ALL)
    bell = sleep(room, second)
    room.found(look)
    assert bell.done(), "the job that was found took the declaration back"


def test_a_declaration_is_left_over_when_the_only_waiter_just_goes(room: Room, clock: Clock) -> None:
    waiter, _ = asleep(room, clock)
    assert not room.sleeps_for_nobody()
    room.leave(waiter)
    assert room.sleeps_for_nobody()
    room.taken_back()
    assert not room.sleeps_for_nobody()


def test_whoever_waits_is_dismissed(room: Room, clock: Clock) -> None:
    bells = [asleep(room, clock)[1] for _ in range(3)]
    room.dismiss()
    assert all(bell.done() for bell in bells)
    assert room.dismissed
