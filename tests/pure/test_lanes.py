"""Which queues share which slots, and how many jobs to ask for."""

from __future__ import annotations

import pytest

from wakeful import config
from wakeful.claim.lanes import Lane, Lanes, make_lanes


def test_without_queues_one_lane_serves_them_all() -> None:
    lanes = make_lanes([], 4, {"b", "a"})
    assert lanes.slots == 4
    assert lanes.every == 1
    assert lanes.queues() == (["a", "b"], [1, 1])
    assert lanes.serves("never.heard.of")
    assert lanes.queues()[0] == ["a", "b", "never.heard.of"]


def test_a_queue_with_slots_has_a_lane_and_the_others_share_one() -> None:
    lanes = make_lanes([config.Lane("fast", 3), config.Lane("a"), config.Lane("b")], 5, {"x"})
    assert lanes.slots == 8
    assert lanes.every is None
    assert lanes.queues() == (["fast", "a", "b"], [1, 2, 2])
    assert lanes.of("a") is lanes.of("b") is not lanes.of("fast")
    assert not lanes.serves("x")


def test_only_queues_with_slots_make_no_lane_for_the_rest() -> None:
    lanes = make_lanes([config.Lane("a", 1), config.Lane("b", 2)], 99, ())
    assert lanes.slots == 3


def test_room_is_what_the_slots_and_what_waits_leave() -> None:
    lane = Lane(4, ["a"])
    assert lane.room(0) == 4
    lane.running = 3
    assert (lane.room(0), lane.room(10)) == (1, 11)
    lane.running = 5
    assert lane.room(0) == 0


def test_room_for_a_batch_is_there_only_while_one_gathers() -> None:
    lane = Lane(2, ["a"])
    assert lane.room(0, batch=100) == 2
    lane.gathering = 1
    assert lane.room(0, batch=100) == 101


@pytest.mark.parametrize("hungry", [(False, False), (False, True), (True, True)])
def test_one_hungry_lane_is_enough_and_a_look_makes_all_of_them_hungry(hungry: tuple[bool, bool]) -> None:
    lanes = Lanes([Lane(1, [name], hungry=one) for name, one in zip("ab", hungry, strict=True)])
    assert lanes.hungry is any(hungry)
    lanes.look()
    assert [lane.hungry for lane in lanes.lanes] == [True, True]
