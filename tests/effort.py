"""How hard the tests try: `WAKEFUL_TEST_EFFORT=10` makes ten times the rounds, rows and steps."""

from __future__ import annotations

import os

EFFORT = float(os.environ.get("WAKEFUL_TEST_EFFORT", "1"))


def times(count: int) -> int:
    """That many, by the effort asked for; at least one."""
    return max(1, round(count * EFFORT))
