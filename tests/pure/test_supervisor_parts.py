"""The supervisor's small parts: how long it waits, what it runs, which files it sees change."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

from wakeful.edges.supervisor.backoff import LONGEST_WAIT, STEADY_AFTER, Backoff
from wakeful.edges.supervisor.child import describe_end
from wakeful.edges.supervisor.plan import wakeful_command
from wakeful.edges.supervisor.watch import Watch, stamps
from wakeful.worker.limits import Limits, resident_bytes


def test_waits_double_up_to_the_longest() -> None:
    backoff = Backoff(draw=lambda: 0.5)
    waits = [backoff.crashed(0.1) for _ in range(12)]
    assert waits[:3] == [0.25, 0.5, 1.0]
    assert all(later == min(LONGEST_WAIT, 2 * earlier) for earlier, later in pairwise(waits))


def test_waits_are_spread_by_chance() -> None:
    least, most = Backoff(draw=lambda: 0.0), Backoff(draw=lambda: 1.0)
    assert (least.crashed(0), most.crashed(0)) == (0.125, 0.375)


def test_who_has_lived_a_while_begins_anew() -> None:
    backoff = Backoff(draw=lambda: 0.5)
    for _ in range(5):
        backoff.crashed(0.1)
    assert backoff.hopeless
    assert backoff.crashed(STEADY_AFTER) == 0.25
    assert not backoff.hopeless


def test_an_end_is_told_in_words() -> None:
    assert [describe_end(code) for code in (0, 3, -9, -70)] == ["exit code 0", "exit code 3", "SIGKILL", "signal 70"]


def test_flags_become_arguments_again() -> None:
    flags = {"poll_interval": "2s", "notify": False, "queues": None, "once": True}
    assert wakeful_command("worker", ["a:b"], flags)[3:] == (
        *("worker", "a:b", "--poll-interval", "2s"),
        *("--no-notify", "--once"),
    )


def test_files_that_come_change_or_go_are_seen_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "notes.txt").write_text("1")
    for ignored in (".venv", "node_modules", "__pycache__"):
        (tmp_path / ignored).mkdir()
    watch = Watch(str(tmp_path))
    assert (len(watch), watch.changes()) == (1, [])
    (tmp_path / "a.py").write_text("22")
    (tmp_path / "b.py").write_text("1")
    (tmp_path / "notes.txt").write_text("22")
    (tmp_path / ".venv" / "c.py").write_text("1")
    assert [os.path.basename(path) for path in watch.changes()] == ["a.py", "b.py"]
    assert watch.changes() == []
    (tmp_path / "a.py").unlink()
    assert [os.path.basename(path) for path in watch.changes()] == ["a.py"]


def test_a_followed_file_elsewhere_is_seen_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    other = tmp_path / "other.py"
    other.write_text("1")
    watch = Watch(str(tmp_path / "here"))
    watch.follow(stamps([str(other)]))
    assert watch.changes() == []
    other.write_text("22")
    assert watch.changes() == [str(other)]


def test_limits_count_jobs_and_look_at_the_size_once_a_second() -> None:
    looks: list[float] = []
    now = 10.0

    def size() -> int:
        looks.append(now)
        return 99 * 1024 * 1024

    limits = Limits(5, 100, size, lambda: now)
    assert [limits.reached(number) for number in (0, 4, 5)] == [None, None, "max_jobs"]
    assert looks == [10.0]
    now = 11.0
    limits.reached(1)
    assert looks == [10.0, 11.0]
    assert Limits(None, 99, size, lambda: now).reached(1) == "max_rss"
    assert Limits(None, 99, size, lambda: now).reached(0) is None
    assert Limits(None, None).reached(10**9) is None
    assert resident_bytes() > 1024 * 1024
