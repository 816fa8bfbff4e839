"""The flags of commands that run jobs. Their values are read and checked where all settings are."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

from wakeful.edges.cli.options import given_dsn

F = TypeVar("F", bound=Callable[..., Any])

_WORKER = (
    ("--queues", "LIST", "Queues to serve, some with slots of their own: mail:4,reports. All, if left out."),
    ("--concurrency", "N", "Slots for queues that have none of their own (10)."),
    ("--lease", "SECONDS", "After this long without a sign of life a worker's jobs are another's (30)."),
    ("--poll-interval", "SECONDS", "Look at least this often, poked or not (20)."),
    ("--processes", "N", "Run N processes, and start those again that crash (1)."),
    ("--max-jobs", "N", "End a process after N jobs; with --processes another takes its place."),
    ("--max-rss", "MIB", "End a process that holds more memory than this, in the same way."),
    ("--probe-port", "PORT", "Answer /healthz, /readyz and /metrics there; with --processes, from there on."),
    ("--probe-host", "HOST", "The address to answer probes on (127.0.0.1)."),
    ("--shutdown-timeout", "SECONDS", "How long jobs may take to finish after SIGTERM (25)."),
)


def worker_options(command: F) -> F:
    """How a worker runs; each also as WAKEFUL_<FLAG> and in [worker] of wakeful.toml."""
    options = [click.option(name, metavar=metavar, help=text) for name, metavar, text in _WORKER]
    options.append(
        click.option("--notify/--no-notify", default=None, help="Be woken by NOTIFY, or only poll (be woken).")
    )
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)


def given_dsn_option(command: F) -> F:
    """`--dsn` as it is given, here or before the command; None otherwise, so that the app's own setting counts."""

    def choose(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
        return given_dsn(ctx, value)

    return click.option("--dsn", metavar="DSN", callback=choose, help="The database to use.")(command)


def log_options(command: F) -> F:
    """What is logged, and how; also as WAKEFUL_<FLAG> and in [log] of wakeful.toml."""
    form = click.option("--log-format", metavar="FORMAT", help="auto (text on a terminal), json or text.")
    level = click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error (info).")
    return form(level(command))
