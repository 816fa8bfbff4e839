"""docs/reference/settings.md, from the dataclasses of `wakeful.config`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from typing import Any

from docs.generators.cli import commands
from docs.generators.markdown import code, joined, promise, table
from wakeful.config import SECTIONS, Settings

INTRO = """
# Settings

A flag comes before `WAKEFUL_<NAME>`, that before the nearest `wakeful.toml` (or `[tool.wakeful]` of a
`pyproject.toml`) in the working directory or above, that before the default. In a file, each setting stands in its
table:

```toml
app = "shop:app"

[database]
dsn = "postgresql://wakeful@db.internal/shop"

[worker]
queues = "mail:4,reports"
concurrency = 20
lease = "30s"
```

A setting that is not known, or has a value that it cannot have, is a `ConfigError` that names it and where it stands.
Durations are numbers of seconds, or text such as `"250ms"`, `"90"`, `"5m"`, `"1h30m"`. A switch is `on` or `off`.

Everything is read once, when an app first needs it. A worker reads it again on SIGHUP.
"""

# A setting that is not here fails the generation: there is no setting without a meaning.
MEANINGS: Mapping[str, str] = {
    "app": "The app that commands run, as `module:attribute`.",
    "dsn": "The database. After the file `DATABASE_URL` is asked; with none of them it is the embedded server. "
    "`wakeful migrate` reads no file: give it the flag or a variable.",
    "listen_dsn": "Where to LISTEN, if that cannot go through `dsn`: a direct connection past a pooler.",
    "pool_size": "The most connections that one process opens for enqueuing, `app.queue` and contexts; per event loop.",
    "notify": "Off: this process pokes nobody, and its workers only poll.",
    "payload_limit": "The largest payload, in bytes of JSON. Jobs that plain SQL enqueues are not measured.",
    "enqueue_off": "Tasks that this process does not enqueue: the call returns None and logs why.",
    "queues": "The queues to serve, some with slots of their own: `mail:4,reports`. None named: all.",
    "concurrency": "Slots for all queues that have none of their own.",
    "processes": "How many processes `wakeful worker` runs and keeps alive.",
    "lease": "After this long without a sign of life a worker's jobs are taken back.",
    "poll_interval": "The pulse: look at least this often, poked or not.",
    "timeout": "How long one attempt may take, for tasks that do not say.",
    "shutdown_timeout": "How long running jobs may take to finish after SIGTERM, before they are given back.",
    "max_jobs": "End a process after so many attempts; with `processes` another takes its place.",
    "max_rss": "End a process that holds more memory than this, in MiB, in the same way.",
    "retention": "How long completed and cancelled jobs are kept; whole UTC days are dropped.",
    "log_format": "`text` for people, `json` for machines, `auto`: text on a terminal, else JSON.",
    "usage_webhook": 'Where workers post what each run of a tenant\'s job used: `{"usage": [...]}`.',
    "alert_every": "How often one of the fleet looks whether a rule is broken.",
    "alert_depth": "Fires when more ready jobs of a task wait than this; `off` for never, here and below.",
    "alert_age": "Fires when a task's oldest ready job waits for longer.",
    "alert_failure_rate": "Fires when a larger share of a task's runs failed since the last look, of at least 20.",
    "alert_dead_letters": "Fires when more dead letters are unseen.",
    "alert_no_worker": "Fires when no worker serves a queue's ready jobs.",
    "alert_breaker": "Fires when a breaker is open.",
    "alert_snapshot": "Fires when a transaction keeps vacuum from its work for longer.",
    "alert_webhook": 'Where the worker that looked posts what fired or cleared: `{"alerts": [...]}`.',
    "probe_port": "Where a worker answers `/healthz`, `/readyz` and `/metrics`; with `processes`, from this port on.",
    "probe_host": "The address to answer on; the loopback one, unless others must reach it.",
    "log_level": "`debug`, `info`, `warning` or `error`.",
    "tick_token": "Who sends it as `Authorization: Bearer …` may call the tick endpoint. None: nobody may.",
    "tick_limit": "How many jobs one call of the tick endpoint runs at most.",
}

ELSEWHERE: Mapping[str, str] = {
    "DATABASE_URL": "The database, where neither a flag, nor `WAKEFUL_DSN`, nor the file names one.",
    "WAKEFUL_DIRECTORY": "Where the embedded server keeps its data; `.wakeful` below the working directory.",
    "WAKEFUL_PG_BIN": "The folder with PostgreSQL's programs for the embedded server, before the wheel's and PATH's.",
    "WAKEFUL_PREPARE": "`off`: no prepared statements, for a pooler that hides the server's process number.",
    "WAKEFUL_ONCE": "As `--once` of `wakeful worker`.",
    "WAKEFUL_LIMIT": "As `--limit` of `wakeful worker`.",
    "WAKEFUL_ACTOR": "As `--by` of commands that change something: who is noted to have done it.",
    "WAKEFUL_DEBUG": "`1`: a command that fails shows the traceback.",
    "WAKEFUL_TEST_DSN": "For the pytest plugin: a server for the test databases, instead of an embedded one.",
    "WAKEFUL_TEST_POSTGRES_BIN": "For the pytest plugin: as its option `--postgres-bin`.",
    "NO_COLOR": "Set to anything: no colours in log lines.",
}


STEERING = """
## What holds for the whole fleet

These tables stand in the file only. What a task or `app.breaker` says itself comes first. Workers write what they say
about breakers and queues to the database as they start.

| table | setting | default | meaning |
|---|---|---|---|
| `[retry]` | `base`, or `base_ms` | 1s | The wait before the second start. |
|  | `factor` | 2 | By which each wait is longer than the last. |
|  | `cap`, or `max_ms` | 300s | The longest wait. |
|  | `jitter` | 0.1 | By which share a wait is spread, from 0 to 1. |
|  | `steps` |  | The waits one by one, instead of all these: `[0, 30, 300]` is three starts. |
|  | `max_attempts` | 5 | How often a job may start. |
| `[breaker]`, for all breakers | `threshold`, or `failure_threshold` | 5 | How many failures open it. |
|  | `window` | 60s | Within how long. |
|  | `open_for`, or `open_duration_ms` | 60s | How long it is open before the first probe. |
|  | `cap` | 10m | The longest it is open: each probe that fails doubles the time. |
|  | `probes` | 1 | How many are let through at a time, and have to succeed. |
| `[breaker.NAME]` | the same |  | For one of them. |
| `[queue.NAME]` | `concurrency` |  | How many of its jobs run at once. |
|  | `rate`, `burst` |  | How many start in a time (`"100 per minute"`), and at once. |
|  | `fair`, `weights` | off | Its tenants take turns, by weights (`{gold = 4}`). |
|  | `ageing` |  | After so long in line a job counts as one priority higher. |
|  | `max_pending` |  | How many may wait; more are refused. |
"""


def page() -> str:
    """The page."""
    tables: dict[str, type[Any]] = {"": Settings, **SECTIONS}
    described = [section(name, kind) for name, kind in tables.items()]
    unknown = MEANINGS.keys() - {one.name for kind in tables.values() for one in fields(kind)}
    if unknown:
        raise LookupError(f"these are no settings any more: {', '.join(sorted(unknown))}")
    return joined(
        INTRO, *described, STEERING, "## Variables without a setting", table(["variable", "meaning"], others())
    )


def others() -> list[tuple[str, str]]:
    """Variables that are read outside the settings."""
    return [(code(name), meaning) for name, meaning in ELSEWHERE.items()]


def section(name: str, kind: type[Any]) -> str:
    """The settings of one table of the file."""
    rows = [row(one) for one in fields(kind) if one.name not in (*SECTIONS, "steering")]
    heading = f"## `[{name}]`" if name else "## At the top"
    return joined(heading, promise(kind.__doc__), table(["setting", "flag", "variable", "default", "meaning"], rows))


def row(one: Field[Any]) -> tuple[str, ...]:
    """One setting."""
    return (
        code(one.name),
        flags(one.name),
        code(f"WAKEFUL_{one.name.upper()}"),
        default(one),
        MEANINGS[one.name],
    )


def flags(name: str) -> str:
    """The options that give it, and of which commands."""
    found: dict[str, list[str]] = {}
    for path, command in commands():
        for parameter in command.params:
            if parameter.name == name:
                spelled = parameter.opts[0] if parameter.param_type_name == "option" else name.upper()
                found.setdefault(spelled, []).append(path)
    if name == "dsn":
        return code("--dsn") + " of every command but `db`"
    return "; ".join(f"{code(flag)} of {', '.join(map(code, paths))}" for flag, paths in found.items())


def default(one: Field[Any]) -> str:
    """Its default, as one would write it."""
    assert one.default is not MISSING
    match one.default:
        case None | ():
            return ""
        case bool() as on:
            return "on" if on else "off"
        case timedelta() as span:
            seconds = int(span.total_seconds())
            return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"
        case frozenset():
            return ""
    return str(one.default)
