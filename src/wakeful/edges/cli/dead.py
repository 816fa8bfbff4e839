"""`wakeful dead list|show|ack|requeue|purge`: jobs that failed for good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from wakeful.edges.cli.acts import Interrupted, by_option, confirm, progress, yes_option
from wakeful.edges.cli.filters import F, filter_options, job_filter, page_options
from wakeful.edges.cli.options import dsn_option, json_option
from wakeful.values.errors import JobNotFound, WakefulError

if TYPE_CHECKING:
    from wakeful.edges.cli.asking import Asking
    from wakeful.queue.sweep import Act
    from wakeful.statements.read import JobFilter
    from wakeful.values.report import DeadLetter

SEEN = {"yes": True, "no": False, "any": None}


def seen_option(default: str) -> Callable[[F], F]:
    """`--acknowledged`: those that somebody has dealt with, or has not."""
    return click.option(
        "--acknowledged",
        "seen",
        type=click.Choice(list(SEEN)),
        default=default,
        show_default=True,
        help="Only those that somebody has dealt with, or has not.",
    )


def choosing(default_seen: str) -> Callable[[F], F]:
    """Ids, or a filter, or `--all`: what an act is about."""

    def decorate(command: F) -> F:
        for option in (
            json_option,
            dsn_option,
            by_option,
            yes_option,
            seen_option(default_seen),
            filter_options,
            click.option("--all", "everything", is_flag=True, help="All of them, without a filter."),
            click.argument("ids", metavar="[ID]…", type=click.UUID, nargs=-1),
        ):
            command = option(command)
        return command

    return decorate


@click.group()
def dead() -> None:
    """See to jobs that failed for good."""


@dead.command("list")
@filter_options
@seen_option("no")
@page_options
@dsn_option
@json_option
def list_dead(seen: str, limit: int, after: UUID | None, dsn: str | None, as_json: bool, **chosen: Any) -> None:
    """List dead letters, the newest jobs first. WHEN is about their death."""
    from wakeful.edges.cli.asking import reading
    from wakeful.statements import read_fleet

    wanted = job_filter(**chosen)
    with reading(dsn) as asking:
        found = asking.run(read_fleet.dead_letters(wanted, acknowledged=SEEN[seen], limit=limit, after=after))
    _print_letters(found, as_json)
    if len(found) == limit and not as_json:
        click.echo(f"There may be more: add --after {found[-1].id}.", err=True)


@dead.command()
@click.argument("id", type=click.UUID)
@dsn_option
@json_option
def show(id: UUID, dsn: str | None, as_json: bool) -> None:
    """Show one dead letter, with the job as it was."""
    from dataclasses import asdict

    from wakeful.edges.cli.asking import reading
    from wakeful.edges.cli.showing import print_facts, print_json
    from wakeful.statements import read_fleet

    with reading(dsn) as asking:
        found = asking.run(read_fleet.dead_letter(id))
    if found is None:
        raise unknown(id)
    if as_json:
        print_json(found)
    else:
        print_facts((name.replace("_", " "), value) for name, value in asdict(found).items())


@dead.command()
@choosing("no")
def ack(actor: str | None, **chosen: Any) -> int:
    """Mark dead letters as dealt with, by ID or by filter."""
    from wakeful.statements import operate

    return _act("Acknowledge", "acknowledged", operate.acknowledged(actor), **chosen)


@dead.command()
@choosing("no")
@click.option("--rate", type=click.FloatRange(min=0.001), metavar="N", help="At most N a second.")
def requeue(actor: str | None, **chosen: Any) -> int:
    """Put dead jobs back as new ones, by ID or by filter. Interrupted, it goes on when it is called again."""
    from wakeful.statements import operate

    return _act("Requeue", "requeued", operate.requeued(actor), **chosen)


@dead.command()
@choosing("yes")
def purge(actor: str | None, **chosen: Any) -> int:
    """Remove dead letters for good, by ID or by filter."""
    from wakeful.statements import operate

    return _act("Remove", "removed", lambda ids: operate.purge(ids, actor), **chosen)


def unknown(id: UUID) -> JobNotFound:
    """What to say of an id that no dead letter has."""
    return JobNotFound(id, message=f"There is no dead letter {id}. Find it with `wakeful dead list`.")


def _act(
    verb: str,
    done: str,
    act: Act,
    *,
    ids: Sequence[UUID],
    everything: bool,
    seen: str,
    yes: bool,
    dsn: str | None,
    as_json: bool,
    rate: float | None = None,
    **chosen: Any,
) -> int:
    from wakeful.edges.cli.asking import acting
    from wakeful.edges.cli.showing import print_json
    from wakeful.queue.dead import act_on_ids
    from wakeful.queue.script import play

    by_filter = any(value is not None for value in chosen.values())
    if bool(ids) + by_filter + everything != 1:
        raise click.UsageError("Say which: IDs, a filter such as --task, or --all; one of the three.")
    with acting(dsn) as asking:
        if ids:
            meant, count = len(set(ids)), play(asking, act_on_ids(ids, act, _tell, rate=rate))
        else:
            meant, count = _act_on_all(asking, verb, act, job_filter(**chosen), SEEN[seen], yes, rate)
    if as_json:
        print_json({done: count})
    else:
        click.echo(f"{_counted(count)} {done}.")
    return 0 if count == meant or done == "acknowledged" else 1


def _act_on_all(
    asking: Asking, verb: str, act: Act, wanted: JobFilter, acknowledged: bool | None, yes: bool, rate: float | None
) -> tuple[int, int]:
    """Ask, then do it to all that are meant, with a bar on a terminal: how many are meant, and how many were done."""
    from wakeful.queue.dead import act_on_all
    from wakeful.queue.script import play
    from wakeful.statements import read_fleet

    meant = asking.run(read_fleet.dead_letter_count(wanted, acknowledged=acknowledged))
    if meant and yes:
        click.echo(f"{verb} {_counted(meant)}.", err=True)
    elif meant:
        confirm(f"{verb} {_counted(meant)}?", yes)
    seen = 0
    with progress(meant, verb) as show:

        def told(more: int) -> None:
            nonlocal seen
            seen += more
            show(more)

        try:
            return meant, play(asking, act_on_all(wanted, acknowledged, act, rate=rate, told=told, refused=_tell))
        except KeyboardInterrupt:
            pass
    raise Interrupted(f"Interrupted after {seen} of {_counted(meant)}: the same command goes on from there.")


def _tell(error: WakefulError) -> None:
    click.echo(f"wakeful: {error.message}", err=True)


def _counted(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{count} dead letters"


def _print_letters(found: Sequence[DeadLetter], as_json: bool) -> None:
    from wakeful.edges.cli.showing import age, print_json, print_table

    if as_json:
        print_json(list(found))
        return
    print_table(
        ("ID", "TASK", "QUEUE", "TRIES", "DIED", "CODE", "ERROR"),
        [
            (one.id, one.task, one.queue, one.attempt, age(one.died_at), one.error_code, one.error_message)
            for one in found
        ],
        spare=("QUEUE", "CODE", "TRIES", "DIED"),
    )
