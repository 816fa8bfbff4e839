"""`wakeful dead list|show|ack|requeue|purge`: jobs that failed for good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from wakeful.edges.cli.acts import batches, by_option, confirm, yes_option
from wakeful.edges.cli.filters import F, filter_options, job_filter, page_options
from wakeful.edges.cli.options import dsn_option, json_option
from wakeful.values.errors import JobNotFound, WakefulError

if TYPE_CHECKING:
    from wakeful.edges.cli.asking import Asking
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

    def act(asking: Asking, ids: Sequence[UUID]) -> int:
        return sum(asking.run(operate.acknowledge(ids, actor)).values())

    return _act("Acknowledge", "acknowledged", act, **chosen)


@dead.command()
@choosing("no")
def requeue(actor: str | None, **chosen: Any) -> int:
    """Put dead jobs back as new ones, by ID or by filter."""
    from wakeful.statements import operate

    def act(asking: Asking, ids: Sequence[UUID]) -> int:
        return len(asking.run(operate.requeue(ids, actor)))

    return _act("Requeue", "requeued", act, **chosen)


@dead.command()
@choosing("yes")
def purge(actor: str | None, **chosen: Any) -> int:
    """Remove dead letters for good, by ID or by filter."""
    from wakeful.statements import operate

    def act(asking: Asking, ids: Sequence[UUID]) -> int:
        return asking.run(operate.purge(ids, actor))

    return _act("Remove", "removed", act, **chosen)


def unknown(id: UUID) -> JobNotFound:
    """What to say of an id that no dead letter has."""
    return JobNotFound(id, message=f"There is no dead letter {id}. Find it with `wakeful dead list`.")


def _act(
    verb: str,
    done: str,
    act: Callable[[Asking, Sequence[UUID]], int],
    *,
    ids: Sequence[UUID],
    everything: bool,
    seen: str,
    yes: bool,
    dsn: str | None,
    as_json: bool,
    **chosen: Any,
) -> int:
    from wakeful.edges.cli.asking import acting
    from wakeful.edges.cli.showing import print_json

    by_filter = any(value is not None for value in chosen.values())
    if bool(ids) + by_filter + everything != 1:
        raise click.UsageError("Say which: IDs, a filter such as --task, or --all; one of the three.")
    with acting(dsn) as asking:
        meant = _checked(asking, ids) if ids else _chosen(asking, SEEN[seen], chosen)
        if meant and not ids:
            confirm(f"{verb} {_counted(len(meant))}?", yes)
        count = sum(_portion(asking, portion, act) for portion in batches(meant, verb))
    if as_json:
        print_json({done: count})
    else:
        click.echo(f"{_counted(count)} {done}.")
    return 0 if count == len(meant) or done == "acknowledged" else 1


def _checked(asking: Asking, ids: Sequence[UUID]) -> list[UUID]:
    """The ids, once each; nothing is done when one of them is unknown."""
    from wakeful.statements import read_fleet

    for id in ids:
        if asking.run(read_fleet.dead_letter(id)) is None:
            raise unknown(id)
    return sorted(set(ids))


def _chosen(asking: Asking, acknowledged: bool | None, chosen: dict[str, Any]) -> list[UUID]:
    from wakeful.statements import read_fleet

    return asking.run(read_fleet.dead_letter_ids(job_filter(**chosen), acknowledged=acknowledged))


def _portion(asking: Asking, ids: Sequence[UUID], act: Callable[[Asking, Sequence[UUID]], int]) -> int:
    """One statement for all of them; where it is refused, one for each, so that one bad job stops no other."""
    try:
        return act(asking, ids)
    except WakefulError as error:
        if len(ids) == 1:
            click.echo(f"wakeful: {error.message}", err=True)
            return 0
        return sum(_portion(asking, [id], act) for id in ids)


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
        spare=("QUEUE", "CODE"),
    )
