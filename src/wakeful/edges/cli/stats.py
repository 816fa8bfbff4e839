"""`wakeful stats`."""

from __future__ import annotations

import click

from wakeful.edges.cli.options import dsn_option, json_option


@click.command()
@click.option("--task", metavar="NAME", help="Only of this task.")
@dsn_option
@json_option
def stats(task: str | None, dsn: str | None, as_json: bool) -> None:
    """Count the jobs in each state, exactly."""
    from wakeful.edges.cli.asking import reading
    from wakeful.edges.cli.showing import print_facts, print_json
    from wakeful.statements import read
    from wakeful.values.names import task_name

    with reading(dsn) as asking:
        found = asking.run(read.stats(None if task is None else task_name(task, "--task")))
    counts = found.in_other_words()
    if as_json:
        print_json(counts)
    else:
        waiting = f"{counts['pending']} ({found.ready} ready, {found.scheduled} scheduled)"
        print_facts({**counts, "pending": waiting}.items())
