"""How many jobs to hold ready: none for slow handlers, hundreds for fast ones."""

from __future__ import annotations

from wakeful.claim.appetite import MOST, Appetite


def test_at_rest_nothing_is_held_ready() -> None:
    assert Appetite().extra() == 0


def test_slow_handlers_hold_nothing_ready() -> None:
    appetite = Appetite()
    for _ in range(100):
        appetite.learn(1)
    assert appetite.extra() == 0


def test_fast_ones_hold_what_ends_during_a_turn_and_more() -> None:
    appetite = Appetite()
    appetite.learn(50)
    assert appetite.extra() >= 50


def test_it_is_never_more_than_most() -> None:
    appetite = Appetite()
    appetite.learn(10**6)
    assert appetite.extra() == MOST


def test_it_goes_away_when_handlers_become_slow() -> None:
    appetite = Appetite()
    appetite.learn(200)
    for _ in range(20):
        appetite.learn(0)
    assert appetite.extra() == 0
