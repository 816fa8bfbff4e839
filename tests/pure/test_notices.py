"""What a notification says; one that cannot be read is a call to look."""

from __future__ import annotations

import pytest

from wakeful.values.wakeup import Canary, Handed, Look, LookForCancelled, Notice, Poke, read_notice


@pytest.mark.parametrize(
    ("payload", "notice"),
    [
        ('{"q": "a", "in": 0}', Poke("a", 0, None)),
        ('{"q": "a", "in": 1500}', Poke("a", 1.5, None)),
        ('{"canary": 7}', Canary(7)),
        ('{"cancel": true}', LookForCancelled()),
        ('{"look": true}', Look()),
        ("", Look()),
        ("not json", Look()),
        ("[]", Look()),
        ("7", Look()),
        ("null", Look()),
        ('{"q": "a"}', Look()),
        ('{"q": "a", "in": "soon"}', Look()),
        ('{"q": "a", "in": 0, "at": [1, 2]}', Look()),
        ('{"q": "a", "in": 0, "at": [1, 1e30, "x"]}', Look()),
        ('{"canary": "x"}', Look()),
    ],
)
def test_every_payload_is_a_notice(payload: str, notice: Notice) -> None:
    assert read_notice(payload) == notice


def test_a_poke_may_name_a_position() -> None:
    notice = read_notice('{"q": "a", "in": 0, "at": [-3, 1700000000000001, "00000000-0000-0000-0000-000000000005"]}')
    assert isinstance(notice, Poke)
    assert notice.position is not None
    assert (notice.position.rank, notice.position.id.int) == (-3, 5)
    assert notice.position.ready_at.microsecond == 1


def test_a_job_comes_by_the_private_channel_alone() -> None:
    assert read_notice('["a", "b"]', private=True) == Handed(("a", "b"))
    assert read_notice('["a", "b"]') == Look()


@pytest.mark.parametrize("payload", ["", "not json", "7", "null"])
def test_what_cannot_be_read_there_is_a_call_to_look_too(payload: str) -> None:
    assert read_notice(payload, private=True) == Look()
