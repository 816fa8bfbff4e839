"""What a notification says; one that cannot be read is a call to look."""

from __future__ import annotations

import pytest

from wakeful.values.wakeup import Canary, Look, LookForCancelled, Notice, Poke, read_notice


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
