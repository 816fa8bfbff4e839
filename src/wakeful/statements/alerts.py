"""Alerts: one of the fleet looks, and is told what has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta

from wakeful.statements.read import decoded
from wakeful.statements.statement import Statement
from wakeful.values.alert import Alert


def watch(rules: Mapping[str, float], every: timedelta) -> Statement[list[Alert]]:
    """Look, unless another has within `every`; the alerts that fired or cleared by it."""
    return Statement(
        "select rule, subject, number, threshold, fired, details::text"
        " from wakeful.watch_1(%(rules)s::jsonb, %(every)s::interval)",
        {"rules": json.dumps(rules), "every": every},
        lambda rows: [Alert(*(*row[:5], decoded(row[5]))) for row in rows],
    )
