"""What the server tells in passing: a breaker that a statement of this very session opened or closed, as a log line."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

import psycopg

log = logging.getLogger("wakeful.breaker")

_OPENED: Final[Mapping[str, bool]] = {"WF101": True, "WF102": False}


def listen_to(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Log what statements on this connection do to breakers. Sends nothing."""
    conn.add_notice_handler(_hear)


def log_breaker(opened: bool, facts: Mapping[str, object]) -> None:
    """`breaker_opened` or `breaker_closed`, with the breaker's name and what else is known."""
    event = "breaker_opened" if opened else "breaker_closed"
    level = logging.WARNING if opened else logging.INFO
    log.log(level, "%s: %s", event, _sentence(opened, facts), extra={"event": event, **facts})


def _hear(told: psycopg.errors.Diagnostic) -> None:
    opened = _OPENED.get(told.sqlstate or "")
    if opened is not None:
        log_breaker(opened, json.loads(told.message_detail or "{}"))


def _sentence(opened: bool, facts: Mapping[str, object]) -> str:
    by = f" by {facts['by']}" if "by" in facts else ""
    if not opened:
        return f"{facts['breaker']} is closed{by}, its jobs start again"
    failures = f" after {facts['failures']} failures" if "failures" in facts else ""
    probe = " again, its probe failed" if facts.get("from") == "half_open" and not by else ""
    return f"{facts['breaker']} is open{by}{failures}{probe}: none of its jobs starts for {facts['open_seconds']:g} s"
