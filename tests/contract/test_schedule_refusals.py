"""What no schedule can be, when it is made and when it is changed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.test_schedules import add, row
from tests.sessions import INVALID, Session, call, refusal


@pytest.mark.parametrize(
    "said",
    [
        {"cron": "* * * * *"},
        {"every": None},
        {"every": "1 millisecond"},
        {"every": "9000 years"},
        {"every": None, "cron": " "},
        {"misfire": "never"},
        {"cap": 0},
        {"name": ""},
        {"name": None},
        {"task": ""},
        {"task": None},
        {"payload": "[1]"},
        {"options": "[1]"},
        {"options": {"run_at": "2026-01-01"}},
        {"options": {"dedup_key": "k", "dedup": "raise"}},
        {"options": {"priority": 101}},
        {"options": {"priority": "high"}},
        {"options": {"max_attempts": 1.5}},
        {"options": {"metadata": [1]}},
    ],
)
def test_what_no_schedule_can_be_is_refused(db: Session, said: dict[str, Any]) -> None:
    with refusal(INVALID):
        add(db, **said)


@pytest.mark.parametrize(
    "changes",
    [
        None,
        "[1]",
        {"task": None},
        {"task": ""},
        {"every": None},
        {"every": "9000 years"},
        {"payload": [1]},
        {"options": None},
        {"options": [1]},
        {"tz": None},
        {"misfire": "never"},
        {"misfire": None},
        {"cap": 0},
        {"cap": None},
    ],
)
def test_a_change_to_what_no_schedule_can_be_is_refused(db: Session, changes: object) -> None:
    add(db)
    before = row(db)
    with refusal(INVALID):
        call(db, "change_schedule", name="s", changes=changes)
    assert row(db) == before
