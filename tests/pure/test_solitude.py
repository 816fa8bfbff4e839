"""When claiming rests so that a suspect can run alone, and when it goes on."""

from __future__ import annotations

from math import inf

from wakeful.claim.solitude import REST_SECONDS, SECONDS_AFTER_NONE, SECONDS_BETWEEN_RESTS, Solitude


def wanted() -> Solitude:
    solitude = Solitude()
    solitude.wanted = True
    return solitude


def test_without_suspects_work_goes_on() -> None:
    assert Solitude().turn(idle=True, now=1.0) == "work"
    assert Solitude().changes_at(1.0) == inf


def test_an_idle_worker_takes_the_suspect_at_once() -> None:
    assert wanted().turn(idle=True, now=1.0) == "alone"


def test_a_busy_one_rests_for_a_while_goes_on_and_rests_again() -> None:
    solitude = wanted()
    assert solitude.turn(idle=False, now=1.0) == "rest"
    assert solitude.changes_at(1.0) == 1.0 + REST_SECONDS
    assert solitude.turn(idle=False, now=0.9 + REST_SECONDS) == "rest"
    again = 1.0 + REST_SECONDS + SECONDS_BETWEEN_RESTS
    assert solitude.turn(idle=False, now=1.0 + REST_SECONDS) == "work"
    assert solitude.changes_at(1.0 + REST_SECONDS) == again
    assert solitude.turn(idle=False, now=again - 0.1) == "work"
    assert solitude.turn(idle=False, now=again) == "rest"


def test_while_it_rests_or_works_on_idleness_is_its_chance() -> None:
    solitude = wanted()
    solitude.turn(idle=False, now=1.0)
    assert solitude.turn(idle=True, now=2.0) == "alone"
    assert solitude.turn(idle=True, now=2.0 + REST_SECONDS) == "alone"


def test_one_that_was_not_found_is_looked_for_again_a_little_later() -> None:
    solitude = wanted()
    solitude.found(False, now=1.0)
    assert solitude.turn(idle=True, now=1.0) == "work"
    assert solitude.changes_at(1.0) == 1.0 + SECONDS_AFTER_NONE
    assert solitude.turn(idle=True, now=1.0 + SECONDS_AFTER_NONE) == "alone"


def test_after_one_has_run_the_next_has_its_rest_at_once() -> None:
    solitude = wanted()
    solitude.turn(idle=False, now=1.0)
    solitude.found(True, now=2.0)
    assert solitude.turn(idle=False, now=3.0) == "rest"
