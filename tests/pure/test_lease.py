"""How long a lease surely runs, and who beats when."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest

from wakeful.tend.beat import Beater, BeatThread, Lease
from wakeful.values.errors import DatabaseUnavailable


class Answers(Beater):
    """A connection that answers as the test wants."""

    def __init__(self, *answers: bool | Exception) -> None:
        self._answers = list(answers)
        self.beats = 0
        self.closed = 0
        self.beaten = threading.Event()

    def beat(self) -> bool:
        self.beats += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if not self._answers or self.beats >= 3:
            self.beaten.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed += 1


def test_a_lease_is_counted_from_before_the_renewal_was_sent() -> None:
    lease = Lease(timedelta(seconds=10))
    assert 9 < lease.left <= 10
    lease.renewed(time.monotonic() - 4)
    assert lease.left > 9, "an older answer does not set it back"
    lease.lapsed = True
    assert lease.left == 0
    assert lease.left_to_work < 0


def test_work_ends_before_the_lease_does() -> None:
    lease = Lease(timedelta(seconds=10))
    assert 0 < lease.left_to_work < lease.left


def test_the_thread_beats_when_nobody_else_does() -> None:
    lease, line, lost = Lease(timedelta(seconds=0.1)), Answers(True), threading.Event()
    thread = BeatThread(lease, lambda: line, lost.set)
    thread.start()
    assert line.beaten.wait(10)
    thread.end()
    assert not lease.lapsed
    assert not lost.is_set()


def test_the_thread_rests_while_the_loop_beats() -> None:
    lease, line = Lease(timedelta(seconds=1)), Answers(True)
    thread = BeatThread(lease, lambda: line, lambda: None)
    thread.start()
    until = time.monotonic() + 1.2
    while time.monotonic() < until:
        lease.renewed(time.monotonic())
        time.sleep(0.01)
    thread.end()
    assert line.beats == 0


@pytest.mark.parametrize("answer", [False, DatabaseUnavailable("gone")], ids=["lapsed", "unreachable"])
def test_a_lease_that_cannot_be_renewed_is_given_up_before_it_ends(answer: bool | Exception) -> None:
    lease, line, lost = Lease(timedelta(seconds=0.3)), Answers(answer), threading.Event()
    BeatThread(lease, lambda: line, lost.set).start()
    assert lost.wait(10)
    assert lease.lapsed


def test_a_beat_that_fails_is_tried_again_on_another_connection() -> None:
    lease, lost = Lease(timedelta(seconds=1)), threading.Event()
    lines = [Answers(DatabaseUnavailable("gone")), Answers(True)]
    opened: list[Answers] = []

    def open_one() -> Answers:
        opened.append(lines[len(opened)])
        return opened[-1]

    thread = BeatThread(lease, open_one, lost.set)
    thread.start()
    deadline = time.monotonic() + 10
    while lines[1].beats == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    thread.end()
    assert lines[0].closed == 1
    assert not lost.is_set()
