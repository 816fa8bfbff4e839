"""`wakeful enqueue TASK JSON`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from wakeful.edges.cli.filters import moment_alone, read_json
from wakeful.edges.cli.options import dsn_option, json_option

DEDUP_MODES = ("skip", "raise", "replace", "debounce", "rerun")

JOINED = {
    "resent": "a job with this id was enqueued before",
    "skipped": "a live job has this dedup key",
    "replaced": "a waiting job with this dedup key has the payload instead",
    "debounced": "a waiting job with this dedup key was put off",
    "rerun": "a running job with this dedup key runs once more with it",
}


@click.command()
@click.argument("task")
@click.argument("payload", metavar="[JSON]", default="{}")
@click.option("--queue", metavar="NAME", help="The queue (default).")
@click.option("--priority", type=click.IntRange(-100, 100), metavar="N", help="−100 to 100, the higher first.")
@click.option("--delay", metavar="WAIT", help="Due after this long: 30s, 5m, 2h.")
@click.option(
    "--run-at",
    type=moment_alone(" A wait is given as --delay."),
    metavar="WHEN",
    help="Due at this moment: 2026-01-31T08:00.",
)
@click.option("--expires-at", type=moment_alone(), metavar="WHEN", help="Cancelled if not started by then.")
@click.option("--max-attempts", type=click.IntRange(1, 10_000), metavar="N", help="How often it may start (5).")
@click.option("--dedup-key", metavar="KEY", help="Of the task's live jobs only one has this key.")
@click.option("--dedup", type=click.Choice(DEDUP_MODES), help="What becomes of a second one (skip).")
@click.option("--tenant", metavar="NAME", help="Whose job it is.")
@click.option("--correlation-id", type=click.UUID, metavar="ID", help="What it belongs to.")
@click.option("--parent-id", type=click.UUID, metavar="ID", help="The job that asked for it.")
@click.option("--created-by", metavar="NAME", help="Who asked for it.")
@click.option("--id", type=click.UUID, metavar="ID", help="Sent again with the same id, it is made once.")
@dsn_option
@json_option
def enqueue(
    task: str,
    payload: str,
    dsn: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Enqueue a job of TASK with a JSON object as its payload, and print its id.

    JSON is the object itself, `-` for standard input, or `@file`; none is {}.
    """
    from wakeful.app import Wakeful

    arguments = read_payload(payload)
    with Wakeful(dsn) as app:
        made = app.enqueue(task, arguments, **options)
    return answer(task, made, made.action if made else "off", as_json)


def answer(task: str, id: UUID | None, action: str, as_json: bool) -> int:
    """Print what was done; exit 1 when nothing was."""
    if as_json:
        from wakeful.edges.cli.showing import print_json

        print_json({"id": id, "action": action})
    elif id is not None:
        click.echo(id)
    if action in JOINED:
        click.echo(f"No new job was made: {JOINED[action]}.", err=True)
    if id is None:
        click.echo(f"wakeful: Enqueuing of {task} is off. Switch it on, or enqueue another task.", err=True)
    return 0 if id is not None else 1


def read_payload(given: str) -> dict[str, Any]:
    """The payload that the argument names."""
    value = read_json(_text(given), "The payload")
    if not isinstance(value, dict):
        kind = {list: "an array", str: "a text", bool: "true or false"}.get(type(value), "a number or null")
        raise click.UsageError(f"The payload is {kind}: give a JSON object, such as '{{\"id\": 7}}'.")
    return value


def _text(given: str) -> str:
    try:
        if given == "-":
            return sys.stdin.read()
        if given.startswith("@"):
            return Path(given[1:]).read_text("utf-8")
    except OSError as error:
        raise click.UsageError(f"The file {given[1:]!r} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise click.UsageError("The payload is not UTF-8 text.") from None
    return given
