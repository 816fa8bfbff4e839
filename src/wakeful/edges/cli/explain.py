"""`wakeful explain JOB`: why it is not running, or what happened to it."""

from __future__ import annotations

from uuid import UUID

import click

from wakeful.edges.cli.options import dsn_option, json_option


@click.command()
@click.argument("id", type=click.UUID)
@dsn_option
@json_option
def explain(id: UUID, dsn: str | None, as_json: bool) -> None:
    """Tell why a job is not running, or what happened to it, with its timeline."""
    from wakeful.edges.cli.asking import reading
    from wakeful.edges.cli.showing import print_hanging, print_json
    from wakeful.observe.reasons import answer, timeline
    from wakeful.statements import inspect

    with reading(dsn) as asking:
        facts = asking.run(inspect.explain(id))
    sentences, moments = answer(facts), timeline(facts)
    if as_json:
        print_json({"id": id, "state": facts["job"]["state"], "answer": sentences, "timeline": moments, "facts": facts})
        return
    job = facts["job"]
    click.echo(f"{job['task']} in queue {job['queue']} is {job['state']}.")
    for sentence in sentences:
        print_hanging("  ", printable(sentence))
    click.echo()
    for moment in moments:
        print_hanging(f"  {moment.at.astimezone():%Y-%m-%d %H:%M:%S}  ", printable(moment.what))


def printable(text: str) -> str:
    """Whatever a job carries, a line stays a line, and nothing in it steers the terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
