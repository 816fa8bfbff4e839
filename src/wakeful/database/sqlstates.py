"""What a server's error means to us: SQLSTATE, message, DETAIL and HINT become one error of our tree.

Our SQL functions raise reserved states (`WF001` and on), with the facts as JSON in DETAIL and the advice in
HINT. Every driver tells these four things, so one table serves them all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from uuid import UUID

from wakeful.values.errors import (
    BY_SQLSTATE,
    DatabaseUnavailable,
    InvalidOption,
    Refused,
    SchemaMismatch,
    WakefulError,
)

# DETAIL's names on the left, ours on the right; what is not listed has the same name on both sides.
_ATTRIBUTE: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "WF001": {"id": "job_id"},
        "WF002": {"id": "existing_id"},
        "WF004": {"id": "job_id"},
        "WF005": {"id": "job_id"},
    }
)

# Our constraints are named for what must hold, and so say what is wrong.
_BROKEN_RULE = re.compile(
    r'(?:domain wakeful\.\w+|relation "job") violates check constraint "(?:job_)?(?!\w*_check")(\w+)"'
)

# What a statement of ours asks for first: a function, or a view.
_ASKED = re.compile(r"\bwakeful\.(\w+)(\(?)")
_DENIED = re.compile(r"permission denied for (function|schema|database) \"?([^\"]+)")

_WORKER_VERBS = frozenset(
    (
        *("claim", "complete", "fail", "snooze", "release", "extend", "promote", "rescue", "expire"),
        *("make_days", "drop_days", "fold_tally", "fold_metrics", "roll_metrics"),
    )
)
_READING_VERBS = frozenset(
    ("stats", "find_jobs", "search_jobs", "health", "vitals", "depths", "explain", "task_metrics", "metrics_summary")
)


@dataclass(frozen=True, slots=True)
class ServerError:
    """An error as the server told it, whichever driver heard it."""

    sqlstate: str | None
    message: str
    detail: str | None = None
    hint: str | None = None
    asked: str = ""
    """The statement, where it is known."""


def translate(told: ServerError) -> WakefulError | None:
    """Our error for what the server said, or None where the driver's own error serves the caller better.

    Deadlocks, serialization failures and timeouts stay the driver's: a caller's retry loop looks for them.
    """
    state = told.sqlstate or ""
    if state in BY_SQLSTATE:
        return _reserved(state, told)
    if state[:2] == "08" or state[:4] == "57P0" or state in ("25006", "53300"):
        return _unavailable(state, told)
    if state == "42501":
        return Refused(f"{sentence(told.message)} {_remedy(told)}")
    if state == "23514" and (broken := _BROKEN_RULE.search(told.message)):
        return InvalidOption(message=f"It must hold that {broken[1].replace('_', ' ')}: correct what is enqueued.")
    if (state == "3F000" and "wakeful" in told.message) or "wakeful.migration" in told.message:
        return SchemaMismatch("missing")
    if state in ("42883", "42P01") and "wakeful." in told.message:
        return SchemaMismatch("too old", message=f"{sentence(told.message)} Run `wakeful migrate up`.")
    return None


def sentence(message: str, hint: str | None = None) -> str:
    """The server's message, and its hint, as sentences: first letter large, full stop at the end."""
    parts = [part.strip() for part in (message, hint or "") if part.strip()]
    return " ".join(part[0].upper() + part[1:] + ("" if part[-1] in ".!?" else ".") for part in parts)


def _reserved(state: str, told: ServerError) -> WakefulError:
    error = BY_SQLSTATE[state](message=sentence(told.message, told.hint))
    names = _ATTRIBUTE.get(state, {})
    for name, value in _facts(told.detail).items():
        attribute = names.get(name, name)
        if hasattr(error, attribute):
            setattr(error, attribute, _as_id(value) if attribute.endswith("_id") else value)
    return error


def _facts(detail: str | None) -> Mapping[str, object]:
    try:
        facts = json.loads(detail or "{}")
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _as_id(value: object) -> object:
    try:
        return UUID(str(value))
    except ValueError:
        return value


def _unavailable(state: str, told: ServerError) -> DatabaseUnavailable:
    if state == "25006":
        return DatabaseUnavailable("This transaction is read-only. Connect to the primary, or begin it read write.")
    if state == "53300":
        return DatabaseUnavailable("The server has no connection left. Raise its max_connections.")
    return DatabaseUnavailable(f"{sentence(told.message)} Try again when the server is back.")


def _remedy(told: ServerError) -> str:
    if told.message.startswith("must be owner"):
        return "Do it as that owner."
    found = _DENIED.match(told.message)
    kind, name = found.groups() if found else ("view", "")
    if kind == "database":
        return f"Ask its owner to `grant create on database {name} to` your role."
    if kind == "schema" and (asked := _ASKED.search(told.asked)):
        kind, name = ("function" if asked[2] else "view"), asked[1]
    if kind == "schema":
        return (
            "Ask the database's owner to grant your role wakeful_producer (to enqueue), wakeful_worker (to run jobs), "
            "wakeful_viewer (to read) or wakeful_operator (to steer)."
        )
    role = _role_for(name) if kind == "function" else "wakeful_viewer"
    return f"Ask the database's owner to `grant {role} to` your role."


def _role_for(function: str) -> str:
    if function.startswith(("enqueue", "enter_breaker", "leave_breaker")):
        return "wakeful_producer"
    # A version in the name (`claim_1`) is the mark of what only workers call.
    if function in _WORKER_VERBS or function.rpartition("_")[2].isdigit():
        return "wakeful_worker"
    return "wakeful_viewer" if function in _READING_VERBS else "wakeful_operator"
