"""`wakeful worker [APP]`: run jobs, for ever or once, in one process or several."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from wakeful.edges.cli.options import json_option
from wakeful.edges.cli.worker_options import given_dsn_option, log_options, worker_options
from wakeful.values.errors import ConfigError

if TYPE_CHECKING:
    from wakeful.app import Wakeful
    from wakeful.config import Settings
    from wakeful.edges.supervisor import Plan
    from wakeful.worker import Worker
    from wakeful.worker.summary import Summary, Tally

DEFAULT_LIMIT = 100
# A child has its own shutdown timeout; after that and this it is killed.
PATIENCE_SECONDS = 10.0
# How many ports a process tries that runs beside others.
MOST_PROCESSES = 64

Flags = Mapping[str, object]


@click.command()
@click.argument("app", required=False, metavar="[APP]")
@worker_options
@click.option("--once", is_flag=True, envvar="WAKEFUL_ONCE", help="Run what is due now, print a summary, and end.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", envvar="WAKEFUL_LIMIT", help="With --once: at most N (100)."
)
@log_options
@given_dsn_option
@json_option
@click.option("--tether", type=int, hidden=True)
@click.pass_context
def worker(
    ctx: click.Context,
    /,
    app: str | None,
    once: bool,
    limit: int | None,
    as_json: bool,
    tether: int | None,
    **flags: object,
) -> int:
    """Run the jobs of APP, `module:attribute`; else of WAKEFUL_APP, or `app` in wakeful.toml.

    SIGTERM finishes what runs and ends; a second one ends at once. SIGHUP starts afresh, settings read again.
    """
    refuse_contradictions(ctx, once, as_json)
    settings = read_settings({"app": app, **flags})
    set_up_logs(settings)
    if once:
        return run_once(settings, flags, limit or DEFAULT_LIMIT, as_json)
    if tether is None and settings.worker.processes > 1:
        return supervise(app, flags)
    return run_for_ever(settings, flags, tether, app)


def refuse_contradictions(ctx: click.Context, once: bool, as_json: bool) -> None:
    """What one flag asks for, and another makes impossible. From the environment it is passed over."""

    def said(name: str) -> bool:
        return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE

    if not once and (as_json or said("limit")):
        raise click.UsageError(f"{'--json' if as_json else '--limit'} is for the summary of --once: add that.")
    if once and said("processes"):
        raise click.UsageError("--once runs in one process: leave --processes out.")


def read_settings(flags: Flags) -> Settings:
    """All settings; an error calls a flag by the name that it has on the command line."""
    from wakeful.config import load

    try:
        return load(flags)
    except ConfigError as error:
        if flags.get(error.setting) is None or error.setting == "app":
            raise
        raise ConfigError(f"--{error.setting.replace('_', '-')}", error.problem) from None


def set_up_logs(settings: Settings) -> None:
    """Before the app is imported, which may log already."""
    from wakeful.edges.logs import set_up

    set_up(settings.log.log_format, settings.log.log_level)


def open_app(settings: Settings, flags: Flags) -> Wakeful:
    """The app, with the flags in place of its own settings, and a database that it can work with."""
    from wakeful.edges.cli.app_path import load_app
    from wakeful.edges.tracing import observe_what_is_set_up

    app = load_app(settings.app)
    observe_what_is_set_up(app)
    where = {name: getattr(settings.database, name) for name in ("dsn", "notify") if flags.get(name) is not None}
    app.settings = replace(app.settings, database=replace(app.settings.database, **where))
    # Asked here, before anything is registered: no server, a wrong password, no schema.
    with app.database.connection():
        pass
    app.database.close()
    return app


def worker_flags(flags: Flags) -> dict[str, object]:
    """Those that are about the worker itself."""
    from dataclasses import fields

    from wakeful.config import WorkerSettings

    return {field.name: flags.get(field.name) for field in fields(WorkerSettings)}


def run_once(settings: Settings, flags: Flags, limit: int, as_json: bool) -> int:
    """Run at most `limit` jobs that are due, and print what came of it."""
    app = open_app(settings, flags)
    summary = app.worker(**worker_flags(flags)).run_once(limit)
    click.echo(as_document(summary) if as_json else as_lines(summary))
    return 0


def run_for_ever(settings: Settings, flags: Flags, tether: int | None, app_path: str | None) -> int:
    """Run jobs in this process. The exit code tells a supervisor why it ended."""
    from wakeful.edges.supervisor.plan import RECYCLED
    from wakeful.edges.supervisor.process import work
    from wakeful.edges.supervisor.tether import Tether, own_files
    from wakeful.worker.ending import new_loop

    line = Tether(tether) if tether is not None else None
    app = open_app(settings, flags)
    if line is not None:
        line.tell("loaded", files=own_files())
    probed = probing(settings, app, worker_flags(flags), line is not None)
    with probed as worker, asyncio.Runner(loop_factory=new_loop) as runner:
        worked = runner.run(work(worker, line))
    app.close()
    if worked.again:
        command = child_command(app_path, flags)
        os.execv(command[0], command)
    return RECYCLED if line is not None and worked.summary.limit is not None else 0


@contextmanager
def probing(settings: Settings, app: Wakeful, flags: Flags, beside_others: bool) -> Iterator[Worker]:
    """A worker, and its probe where one is asked for. Beside others, the first port that is free."""
    if settings.observe.probe_port is None:
        yield app.worker(**flags)
        return
    from wakeful.edges.probe import Probe
    from wakeful.edges.probe.fleet import Fleet
    from wakeful.observe.measures import Measures

    measures = Measures()
    app.observe(measures)
    worker = app.worker(**flags)
    with Probe(
        lambda: worker.standing,
        measures,
        Fleet(app.database.dsn),
        host=settings.observe.probe_host,
        port=settings.observe.probe_port,
        tries=MOST_PROCESSES if beside_others else 1,
    ):
        yield worker


def supervise(app: str | None, flags: Flags) -> int:
    """Run jobs in several processes."""
    from wakeful.edges.supervisor import Supervisor
    from wakeful.edges.supervisor.process import with_signals

    async def run() -> int:
        supervisor = Supervisor(lambda: read_plan(app, flags))
        with_signals(asyncio.get_running_loop(), supervisor.stop, supervisor.reload)
        return await supervisor.run()

    return asyncio.run(run())


def read_plan(app: str | None, flags: Flags) -> Plan:
    """What the settings ask for at this moment."""
    from wakeful.edges.supervisor import Plan

    settings = read_settings({"app": app, **flags}).worker
    patience = settings.shutdown_timeout.total_seconds() + PATIENCE_SECONDS
    return Plan(child_command(app, {**flags, "processes": None}), settings.processes, patience)


def child_command(app: str | None, flags: Flags) -> tuple[str, ...]:
    """This very command, for a fresh process, which reads everything that is no flag for itself."""
    from wakeful.edges.supervisor.plan import wakeful_command

    return wakeful_command("worker", [app] if app else [], flags)


def as_document(summary: Summary) -> str:
    """The summary as JSON."""
    import json

    facts = asdict(summary)
    del facts["limit"], facts["seconds"]
    if not facts["counters"]:
        del facts["counters"]
    return json.dumps(facts)


def as_lines(summary: Summary) -> str:
    """The summary for people."""
    width = max(map(len, summary.by_task), default=0)
    tallies = sorted(summary.by_task.items())
    return "\n".join([in_words(summary), *(f"  {task:<{width}}  {in_words(tally)}" for task, tally in tallies)])


def in_words(tally: Summary | Tally) -> str:
    """The three counts."""
    return f"{tally.processed} processed, {tally.succeeded} succeeded, {tally.failed} failed"
