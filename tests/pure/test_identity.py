"""Ids: UUIDv7, ascending within a process, never repeated by a fork."""

from __future__ import annotations

import os
import struct
import threading
import time
from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID, uuid4

import pytest

from wakeful.values import identity
from wakeful.values.errors import InvalidOption
from wakeful.values.identity import id_time, new_id, new_ids


def test_an_id_is_a_version_7_uuid_of_this_moment() -> None:
    before = datetime.now(UTC)
    made = new_id()
    after = datetime.now(UTC)
    assert (made.version, made.variant) == (7, RFC_4122)
    assert before - timedelta(milliseconds=1) <= id_time(made) <= after + timedelta(milliseconds=1)
    assert UUID(str(made)) == made
    assert made.is_safe is uuid4().is_safe


def test_the_twelve_bits_after_the_version_are_the_milliseconds_fraction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(identity, "_sequence", identity._Sequence())
    monkeypatch.setattr(identity, "time_ns", lambda: 1_700_000_000_123_750_000)
    made = new_id()
    assert made.int >> 80 == 1_700_000_000_123
    assert made.int >> 64 & 0xFFF == 4096 * 3 // 4
    assert id_time(made) == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)


def test_ids_ascend_strictly_and_differ() -> None:
    made = [new_id() for _ in range(20_000)]
    made += new_ids(20_000)
    made.append(new_id())
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_ascend_while_the_clock_stands_still_or_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([5_000_000_000, 5_000_000_000, 4_000_000_000, 1, 5_000_000_001, 6_000_000_000])
    monkeypatch.setattr(identity, "_sequence", identity._Sequence())
    monkeypatch.setattr(identity, "time_ns", lambda: next(clock))
    made = [new_id(), new_id(), *new_ids(3), new_id(), new_id(), new_id()]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_threads_share_one_sequence() -> None:
    lists: list[list[UUID]] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        lists.append([new_id() for _ in range(3_000)] + new_ids(1_000))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(made == sorted(made) for made in lists)
    every = [made for made_list in lists for made in made_list]
    assert len({made.int >> 64 for made in every}) == len(every), "each has a moment of its own"


def test_a_forked_child_repeats_none_of_its_parents_ids_even_if_the_lock_was_held() -> None:
    new_id()  # Random words are at hand, which the child must not use.
    reading, writing = os.pipe()
    identity._sequence.lock.acquire()
    child = os.fork()
    if child == 0:  # pragma: no cover
        threading.Timer(10, os._exit, [1]).start()
        thread = threading.Thread(target=lambda: os.write(writing, b"".join(i.bytes for i in new_ids(3))))
        thread.start()
        thread.join()
        os.write(writing, b"".join(new_id().bytes for _ in range(100)))
        os._exit(0)
    identity._sequence.lock.release()
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        theirs = pipe.read()
    os.waitpid(child, 0)
    ours = {new_id().int & (1 << 62) - 1 for _ in range(600)}
    random_bits = {low & (1 << 62) - 1 for _, low in struct.iter_unpack(">QQ", theirs)}
    assert len(random_bits) == 103
    assert not ours & random_bits


def test_no_ids_and_fewer() -> None:
    assert new_ids(0) == []
    with pytest.raises(InvalidOption, match="count is -1"):
        new_ids(-1)


def test_the_time_of_an_id_without_one_is_refused() -> None:
    with pytest.raises(InvalidOption, match="give a UUIDv7"):
        id_time(uuid4())


def test_an_id_costs_microseconds() -> None:
    start = time.process_time()
    for _ in range(20_000):
        new_id()
    # Ten times the usual: a guard against a slip in kind, not a benchmark.
    assert time.process_time() - start < 20_000 * 20e-6
