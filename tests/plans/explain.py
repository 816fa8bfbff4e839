"""What the server really did for a call: every nested plan, by auto_explain, from the session that called."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from psycopg.errors import Diagnostic

from tests.sessions import Session

Node = dict[str, Any]

SETTINGS = (
    "load 'auto_explain'",
    "set auto_explain.log_nested_statements = on",
    "set auto_explain.log_analyze = on",
    "set auto_explain.log_timing = off",
    "set auto_explain.log_buffers = on",
    "set auto_explain.log_format = json",
    "set auto_explain.log_level = notice",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """One statement's plan with what it touched."""

    statement: str
    root: Node

    def nodes(self) -> Iterator[Node]:
        """Every node, parents first."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.get("Plans", [])

    @property
    def buffers(self) -> int:
        """Pages touched by the statement and everything it called."""
        return int(self.root.get("Shared Hit Blocks", 0)) + int(self.root.get("Shared Read Blocks", 0))


class Watcher:
    """Runs calls on a session and keeps the plans of all statements that ran for them."""

    def __init__(self, db: Session) -> None:
        self.db = db
        self._plans: list[Plan] = []
        db.add_notice_handler(self._keep)
        for setting in SETTINGS:
            db.execute(setting.encode())

    def watch(self, act: Callable[[Session], object]) -> list[Plan]:
        """The plans of one act, the outermost statement last."""
        self._plans = []
        self.db.execute("set auto_explain.log_min_duration = 0")
        act(self.db)
        self.db.execute("set auto_explain.log_min_duration = -1")
        assert self._plans, "the server told no plan"
        return self._plans

    def _keep(self, told: Diagnostic) -> None:
        message = told.message_primary or ""
        if "plan:" in message:
            document = json.loads(message.partition("plan:")[2])
            self._plans.append(Plan(document["Query Text"], document["Plan"]))


def scanned(node: Node) -> float:
    """The rows that a scan looked at, kept or not."""
    removed = sum(node.get(name, 0) for name in ("Rows Removed by Filter", "Rows Removed by Index Recheck"))
    return float((node.get("Actual Rows", 0) + removed) * node.get("Actual Loops", 1))


def offences(plans: list[Plan], most_rows: int) -> list[str]:
    """Full scans of a table that grows, and scans or sorts of more rows than the call is about."""
    found = []
    for plan in plans:
        for node in plan.nodes():
            kind, table = node["Node Type"], node.get("Relation Name", "")
            grows = table in ("job", "dead_letter") or table.startswith("finished_job")
            if kind == "Seq Scan" and grows:
                found.append(f"{kind} on {table}: {plan.statement}")
            if kind in ("Sort", "Incremental Sort") and node.get("Actual Rows", 0) > most_rows:
                found.append(f"{kind} of {node['Actual Rows']} rows: {plan.statement}")
            # What is not a table is the caller's own rows: once or twice each is fine, once for each other is not.
            if "Scan" in kind and scanned(node) > (most_rows if grows else 5 * most_rows):
                found.append(f"{kind} on {table or 'the given rows'} looks at {scanned(node)} rows: {plan.statement}")
    return found
