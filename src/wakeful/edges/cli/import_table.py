"""`wakeful import MAPPING`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from wakeful.edges.cli.acts import by_option
from wakeful.edges.cli.options import dsn_option, json_option

if TYPE_CHECKING:
    from wakeful.edges.importing.run import Importer, Report

REFUSALS_SHOWN = 10
KEPT_BECAUSE = {
    "started": "started or over",
    "joined": "part of jobs that came from elsewhere",
    "shared": "joined by rows of another source",
    "changed": "changed since",
}


@click.command("import")
@click.argument("mapping")
@click.option("--table", metavar="NAME", help="The table, if it is not the mapping's.")
@click.option("--source", metavar="NAME", help="What the ledger calls it (the table's name).")
@click.option("--aged", metavar="AGE", help="Rows in progress too, once their claim is so old: 30m.")
@click.option("--finished", is_flag=True, help="Rows that are over too, as history and dead letters.")
@click.option("--back", is_flag=True, help="Return what was never started to the table.")
@click.option("--follow", is_flag=True, help="Look again every second, until interrupted.")
@click.option("--batch", type=click.IntRange(1, 10_000), default=500, show_default=True, help="Rows a transaction.")
@click.option("--dry-run", is_flag=True, help="Try one batch and undo it.")
@click.option("--show", is_flag=True, help="Print the preset of this name, to be copied and changed.")
@by_option
@dsn_option
@json_option
def import_(mapping: str, as_json: bool, show: bool, **options: Any) -> int:
    """Make jobs of the rows of a home-made jobs table, once each, while its producers still write.

    MAPPING is a TOML or JSON file that says which column means what, or a preset: litevault, lipas, implicate,
    harmonyk.
    """
    from wakeful.edges.importing.mapping import find_mapping, preset_text, presets
    from wakeful.edges.importing.run import importer
    from wakeful.values.duration import nonnegative_duration

    if show:
        if mapping not in presets():
            raise click.UsageError(f"{mapping} is no preset: there is {', '.join(presets())}.")
        click.echo(preset_text(mapping), nl=False)
        return 0
    if options["back"] and (options["aged"] or options["finished"] or options["follow"] or options["dry_run"]):
        raise click.UsageError("--back goes with none of --aged, --finished, --follow and --dry-run.")
    if options["aged"] is not None:
        options["aged"] = nonnegative_duration(options["aged"], "--aged")
    found = find_mapping(mapping, {"table": options["table"], "source": options["source"]})
    with importer(options["dsn"], found, options["batch"]) as work:
        return answer(_work(work, options), options, as_json)


def _work(work: Importer, options: dict[str, Any]) -> Report:
    if options["back"]:
        return work.back(options["actor"])
    try:
        while True:
            report = work.run(
                finished=options["finished"], aged=options["aged"], keep=not options["dry_run"], progress=_show_progress
            )
            if not options["follow"] or options["dry_run"]:
                return report
            time.sleep(1)
    except KeyboardInterrupt:
        # Every batch is committed whole: what is told is what has moved.
        if options["follow"]:
            return work.report
        raise


def _show_progress(report: Report) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{report.moved:,} rows", nl=False, err=True)


def answer(report: Report, options: dict[str, Any], as_json: bool) -> int:
    """Tell what was done; exit 1 when a row was refused."""
    from wakeful.edges.cli.showing import print_json

    if sys.stderr.isatty() and report.moved:
        click.echo("\r", nl=False, err=True)
    if as_json:
        print_json({**report.told(), "dry_run": options["dry_run"]})
    else:
        click.echo(_sentence(report, options))
    for key, problem in list(report.refused.items())[:REFUSALS_SHOWN]:
        click.echo(f"wakeful: Row {key} stays where it is: {problem}", err=True)
    if (more := len(report.refused) - REFUSALS_SHOWN) > 0:
        click.echo(f"wakeful: {more} more rows stay where they are; --json names them all.", err=True)
    return int(bool(report.refused))


def _sentence(report: Report, options: dict[str, Any]) -> str:
    rows = f"{report.moved:,} {'row' if report.moved == 1 else 'rows'}"
    left = ", ".join(f"{count:,} {word}" for word, count in report.left.items()) or "no row"
    if options["back"]:
        kept = ", ".join(f"{count:,} {KEPT_BECAUSE[reason]}" for reason, count in report.kept.items())
        return f"{rows} returned to {report.source}. The table has {left}.{f' Kept here: {kept}.' if kept else ''}"
    done = "would be moved of the first batch" if options["dry_run"] else "moved"
    told = ", ".join(f"{count:,} {name}" for name, count in sorted(report.actions.items()) if count)
    return f"{rows} of {report.source} {done}{f' ({told})' if told else ''}. The table has {left}."
