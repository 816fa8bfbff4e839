"""The doctor's examination: what a server, its settings and our schema there look like, each with its remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from wakeful.observe.drift import Shape, drift
from wakeful.values.finding import Finding
from wakeful.values.wording import in_words

Facts = Mapping[str, Any]

OLDEST_VERSION: Final = 150_000
ROLES: Final = ("wakeful_operator", "wakeful_producer", "wakeful_viewer", "wakeful_worker")
SNAPSHOT_SECONDS: Final = 300
CLOCK_SECONDS: Final = 1.0


def examine(
    server: Facts,
    vitals: Facts,
    *,
    pooled: bool,
    clock_difference: float,
    schema_version: int,
    shipped: Sequence[str],
    shape: Shape,
    shipped_shape: Shape,
) -> list[Finding]:
    """Everything that was looked at. `shipped` are the texts of the migrations, oldest first."""
    return [
        _version(server),
        _settings(server["settings"]),
        _pooler(pooled),
        _clock(clock_difference),
        _snapshot(vitals),
        *_forgotten(vitals),
        _vacuum(vitals["tables"]),
        _bloat(vitals["tables"]),
        _notify(vitals["notify_queue"]),
        _connections(vitals),
        *_schema(server, list(shipped), schema_version, shape, shipped_shape),
        _roles(server["roles"] or []),
    ]


def _version(server: Facts) -> Finding:
    major = server["version"] // 10_000
    if server["recovering"]:
        return Finding("server", "failing", "This server is a standby, which takes no jobs.", "Connect to the primary.")
    if server["version"] < OLDEST_VERSION:
        return Finding("server", "failing", f"PostgreSQL {major} is too old.", "Use PostgreSQL 15 to 18.")
    return Finding("server", "ok", f"PostgreSQL {major}.{server['version'] % 10_000}.")


def _settings(settings: Mapping[str, str]) -> Finding:
    for name in ("fsync", "full_page_writes"):
        if settings[name] == "off":
            told = f"{name} is off: a crash of the machine may lose or damage jobs."
            return Finding("settings", "failing", told, f"Set {name} = on in postgresql.conf.")
    for name in ("autovacuum", "track_counts"):
        if settings[name] == "off":
            return Finding("settings", "failing", f"{name} is off: tables only grow.", f"Set {name} = on.")
    if settings["synchronous_commit"] == "off":
        told = "synchronous_commit is off: the last moments before a crash are lost, claims among them."
        return Finding("settings", "warning", told, "Set it to on, or to local.")
    return Finding("settings", "ok", "fsync, autovacuum and synchronous_commit are as they should be.")


def _pooler(pooled: bool) -> Finding:
    if pooled:
        told = "A pooler is in the way: in transaction mode NOTIFY does not come through it."
        return Finding(
            "pooler", "warning", told, "Set WAKEFUL_LISTEN_DSN to a direct connection, or workers only poll."
        )
    return Finding("pooler", "ok", "No pooler is in the way.")


def _clock(difference: float) -> Finding:
    told = f"This machine's clock and the server's differ by {abs(difference):.2f} s"
    if abs(difference) > CLOCK_SECONDS:
        return Finding("clock", "warning", f"{told}.", "Only the server's decides, but ids and logs are off: use NTP.")
    return Finding("clock", "ok", f"{told}.")


def _snapshot(vitals: Facts) -> Finding:
    holder = vitals["oldest_snapshot"]
    if holder is None or holder["seconds"] < SNAPSHOT_SECONDS:
        return Finding("snapshots", "ok", "No long transaction keeps vacuum from its work.")
    who = holder["application_name"] or holder["usename"]
    told = (
        f"A transaction of {who} (pid {holder['pid']}, {holder['state']}) is open for {in_words(holder['seconds'])}: "
        "vacuum can remove nothing that died since."
    )
    return Finding("snapshots", "failing", told, f"End it there, or: select pg_terminate_backend({holder['pid']}).")


def _forgotten(vitals: Facts) -> Iterator[Finding]:
    for one in vitals["prepared"]:
        told = f"Prepared transaction {one['gid']} of {one['owner']} is open since {one['since']}, and pins vacuum."
        yield Finding("snapshots", "failing", told, f"Run: commit prepared or rollback prepared '{one['gid']}'.")
    for one in vitals["slots"]:
        if not one["active"]:
            told = f"Replication slot {one['name']} is not in use, and pins vacuum."
            yield Finding("snapshots", "warning", told, f"Run: select pg_drop_replication_slot('{one['name']}').")


def _vacuum(tables: Mapping[str, Facts]) -> Finding:
    if off := [name for name, one in tables.items() if one["autovacuum"] in ("off", "false")]:
        remedy = f"Run: alter table wakeful.{off[0]} reset (autovacuum_enabled)."
        return Finding("autovacuum", "failing", f"Autovacuum is turned off for {', '.join(off)}.", remedy)
    return Finding("autovacuum", "ok", "Autovacuum is on for our tables.")


def _bloat(tables: Mapping[str, Facts]) -> Finding:
    """Dead rows beyond what the tables' own settings let autovacuum leave."""
    heavy = [name for name, one in tables.items() if one["dead"] > 20_000 and one["dead"] > one["live"]]
    if heavy:
        told = ", ".join(f"{name} ({tables[name]['dead']} dead rows, {tables[name]['live']} live)" for name in heavy)
        remedy = f"See who pins vacuum above; then: vacuum wakeful.{heavy[0]}."
        return Finding("bloat", "warning", f"More is dead than alive in {told}.", remedy)
    return Finding("bloat", "ok", "Dead rows are few.")


def _notify(used: float) -> Finding:
    told = f"The NOTIFY queue is {used:.0%} full."
    if used > 0.1:
        remedy = "A session that listens sits in a long transaction: end it before the queue is full and commits fail."
        return Finding("notify_queue", "failing" if used > 0.5 else "warning", told, remedy)
    return Finding("notify_queue", "ok", told)


def _connections(vitals: Facts) -> Finding:
    used, most = vitals["connections"], vitals["max_connections"]
    told = f"{used} of {most} connections are taken."
    if used >= most * 0.9:
        return Finding(
            "connections",
            "failing" if used >= most else "warning",
            told,
            "Raise max_connections, lower WAKEFUL_POOL_SIZE, or use a pooler.",
        )
    return Finding("connections", "ok", told)


def _schema(server: Facts, shipped: list[str], version: int, shape: Shape, wanted: Shape) -> list[Finding]:
    """Only a schema of this code's own version can be compared with what it brings."""
    if version == len(shipped):
        return [_indexes(server, shipped), drift(server, shipped, shape, wanted)]
    newer = version > len(shipped)
    told = f"The schema is at version {version}, this wakeful brings {len(shipped)}: they are not compared."
    remedy = "Ask a wakeful as new as the schema." if newer else "Run `wakeful migrate up`, and ask again."
    return [Finding("drift", "warning", told, remedy)]


def _indexes(server: Facts, shipped: list[str]) -> Finding:
    there = dict(server["indexes"] or [])
    wanted = {name for text in shipped for name in re.findall(r"\bcreate (?:unique )?index (\w+)", text)}
    if missing := sorted(wanted - there.keys()):
        return Finding("indexes", "failing", f"Missing: {', '.join(missing)}.", _as_shipped("create index", missing[0]))
    if broken := sorted(name for name, valid in there.items() if not valid):
        return Finding(
            "indexes", "failing", f"Not valid: {', '.join(broken)}.", f"Run: reindex index wakeful.{broken[0]}."
        )
    return Finding("indexes", "ok", f"All {len(wanted)} indexes are there.")


def _roles(there: Iterable[str]) -> Finding:
    if missing := [name for name in ROLES if name not in there]:
        remedy = f"As a superuser: create role {missing[0]}; then grant it what `wakeful migrate sql` lists."
        return Finding("roles", "warning", f"Missing roles: {', '.join(missing)}: only the owner can act.", remedy)
    return Finding("roles", "ok", "The four roles are there.")


def _as_shipped(what: str, name: str) -> str:
    return f"`wakeful migrate sql` prints what was shipped: run its `{what} {name} …`."
