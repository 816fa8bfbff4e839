"""`wakeful stats`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from wakeful.edges.cli.health import span
from wakeful.edges.cli.options import dsn_option, json_option


@click.command()
@click.option("--task", metavar="NAME", help="Only of this task.")
@click.option("--by-task", is_flag=True, help="Runs and percentiles of each task, instead.")
@click.option("--usage", is_flag=True, help="What each tenant used, by UTC day, instead.")
@click.option("--since", type=span, metavar="SPAN", help="With --by-task or --usage: of the last 1h, 7d, ….")
@click.option("--prometheus", is_flag=True, help="The fleet's numbers as Prometheus reads them, instead.")
@click.option("--csv", "as_csv", is_flag=True, help="With --usage: as CSV.")
@dsn_option
@json_option
def stats(
    task: str | None,
    by_task: bool,
    usage: bool,
    since: timedelta | None,
    prometheus: bool,
    as_csv: bool,
    dsn: str | None,
    as_json: bool,
) -> None:
    """Count the jobs in each state, exactly; or runs by task, or usage by tenant."""
    from wakeful.edges.cli.asking import reading
    from wakeful.edges.cli.showing import print_facts, print_json
    from wakeful.statements import read
    from wakeful.values.names import task_name

    if (by_task and usage) or (since and not (by_task or usage)) or (as_csv and (as_json or not usage)):
        raise click.UsageError(
            "Choose --by-task or --usage; --since is for these two, --csv for --usage without --json."
        )
    name = None if task is None else task_name(task, "--task")
    if prometheus:
        return show_exposition(dsn)
    if by_task:
        return show_tasks(name, since, dsn, as_json)
    if usage:
        return show_usage(name, since, dsn, as_json, as_csv)
    with reading(dsn) as asking:
        found = asking.run(read.stats(name))
    counts = found.in_other_words()
    if as_json:
        print_json(counts)
    else:
        waiting = f"{counts['pending']} ({found.ready} ready, {found.scheduled} scheduled)"
        print_facts({**counts, "pending": waiting}.items())


def show_exposition(dsn: str | None) -> None:
    """For a collector that reads files, where no worker can be scraped."""
    from wakeful.edges.cli.asking import reading
    from wakeful.observe.fleet_families import fleet_families
    from wakeful.statements import inspect

    try:
        from wakeful.edges.probe.exposition import text_of
    except ImportError:
        raise click.ClickException("--prometheus needs prometheus_client: install wakeful[metrics].") from None
    with reading(dsn) as asking:
        depths, health = asking.run(inspect.depths()), asking.run(inspect.health(timedelta(hours=1)))
        vitals = asking.run(inspect.vitals())
    click.echo(text_of(fleet_families(depths, health, vitals)).decode(), nl=False)


def show_tasks(task: str | None, since: timedelta | None, dsn: str | None, as_json: bool) -> None:
    """Runs by outcome and percentiles."""
    from wakeful.edges.cli.asking import reading
    from wakeful.edges.cli.showing import print_json, print_table
    from wakeful.statements import metrics

    with reading(dsn) as asking:
        found = asking.run(metrics.by_task(since, task))
    if as_json:
        print_json(found)
        return
    print_table(
        ("TASK", "DONE", "FAILED", "DEAD", "OTHER", "P50", "P95", "P99", "WAIT P50", "WAIT P95", "WAIT P99"),
        [
            (
                *(one.task, one.completed, one.failed, one.dead, one.others),
                *map(_seconds, (one.run_p50, one.run_p95, one.run_p99, one.wait_p50, one.wait_p95, one.wait_p99)),
            )
            for one in found
        ],
        spare=("OTHER", "WAIT P99", "P99", "WAIT P50"),
    )


def show_usage(task: str | None, since: timedelta | None, dsn: str | None, as_json: bool, as_csv: bool) -> None:
    """Runs and seconds by day, tenant, task and outcome."""
    import csv
    import sys

    from wakeful.edges.cli.asking import reading
    from wakeful.edges.cli.showing import print_json, print_table
    from wakeful.statements import metrics

    first = None if since is None else (datetime.now(UTC) - since).date()
    with reading(dsn) as asking:
        found = [one for one in asking.run(metrics.usages(first)) if task is None or one.task == task]
    columns = ("day", "tenant", "task", "outcome", "runs", "seconds")
    rows = [(one.day, one.tenant, one.task, one.outcome, one.runs, round(one.seconds, 6)) for one in found]
    if as_json:
        print_json([{**dict(zip(columns, row, strict=True)), "day": row[0].isoformat()} for row in rows])
    elif as_csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([columns, *rows])
    else:
        print_table([column.upper() for column in columns], rows)


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:.3g}ms" if seconds < 1 else f"{seconds:.3g}s"
