"""`wakeful schedules list|run|pause|resume|remove`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wakeful.edges.cli.acts import by_option, reason_option, yes_option
from wakeful.edges.cli.options import dsn_option, json_option

if TYPE_CHECKING:
    from wakeful.values.schedule import ScheduleReport


@click.group()
def schedules() -> None:
    """See schedules, and run, pause, resume or remove them."""


@schedules.command("list")
@dsn_option
@json_option
def list_schedules(dsn: str | None, as_json: bool) -> None:
    """List all schedules, those in code and those made at run time."""
    from wakeful.edges.cli.asking import reading
    from wakeful.edges.cli.showing import age, print_json, print_table
    from wakeful.schedule.door import with_next_slots
    from wakeful.statements import schedules as statements

    with reading(dsn) as asking:
        found = with_next_slots(asking.run(statements.listed()))
    if as_json:
        print_json(found)
        return
    print_table(
        ("NAME", "WHEN", "ZONE", "NEXT", "LAST", "STATE", "TASK", "MISFIRE", "SOURCE"),
        [
            (
                *(one.name, one.cron or f"every {one.every}", one.tz, _in_zone(one), age(one.last_slot)),
                *(_state(one), one.task, one.misfire, one.source),
            )
            for one in found
        ],
        spare=("SOURCE", "MISFIRE", "TASK", "LAST"),
    )


@schedules.command()
@click.argument("name")
@by_option
@dsn_option
@json_option
def run(name: str, actor: str | None, dsn: str | None, as_json: bool) -> int:
    """Make a job of schedule NAME now, beside its slots."""
    from wakeful.statements import schedules as statements

    id = _act(dsn, statements.run_now(name, actor))
    if id is None:
        click.echo(f"wakeful: Enqueuing of the task of schedule {name} is off, so no job was made.", err=True)
        return 1
    _tell(as_json, {"name": name, "job_id": id}, str(id))
    return 0


@schedules.command()
@click.argument("name")
@reason_option
@by_option
@dsn_option
@json_option
def pause(name: str, reason: str | None, actor: str | None, dsn: str | None, as_json: bool) -> None:
    """Make no more jobs of schedule NAME until it is resumed."""
    from wakeful.statements import schedules as statements

    _act(dsn, statements.pause(name, actor, reason))
    _tell(as_json, {"name": name, "paused": True}, f"Schedule {name} is paused.")


@schedules.command()
@click.argument("name")
@reason_option
@by_option
@dsn_option
@json_option
def resume(name: str, reason: str | None, actor: str | None, dsn: str | None, as_json: bool) -> None:
    """Go on with schedule NAME at its next slot; what it missed is not made up for."""
    from wakeful.statements import schedules as statements

    _act(dsn, statements.resume(name, actor, reason))
    _tell(as_json, {"name": name, "paused": False}, f"Schedule {name} is resumed.")


@schedules.command()
@click.argument("name")
@yes_option
@by_option
@dsn_option
@json_option
def remove(name: str, yes: bool, actor: str | None, dsn: str | None, as_json: bool) -> None:
    """Remove schedule NAME. One in code comes back when a worker starts that still declares it."""
    from wakeful.edges.cli.acts import confirm
    from wakeful.statements import schedules as statements

    confirm(f"Remove schedule {name}?", yes)
    _act(dsn, statements.remove(name, actor))
    _tell(as_json, {"name": name, "removed": True}, f"Schedule {name} is removed.")


def _act(dsn: str | None, statement: Any) -> Any:
    from wakeful.edges.cli.asking import acting

    with acting(dsn) as asking:
        return asking.run(statement)


def _tell(as_json: bool, facts: dict[str, object], sentence: str) -> None:
    from wakeful.edges.cli.showing import print_json

    if as_json:
        print_json(facts)
    else:
        click.echo(sentence)


def _in_zone(one: ScheduleReport) -> str:
    """The next slot as its own zone's clocks will show it; an interval has none that counts."""
    from zoneinfo import ZoneInfo

    from wakeful.schedule.door import is_readable

    if one.next_at is None or not is_readable(one):
        return ""
    return f"{one.next_at.astimezone(ZoneInfo(one.tz if one.cron else 'UTC')):%Y-%m-%d %H:%M:%S}"


def _state(one: ScheduleReport) -> str:
    from wakeful.schedule.door import is_readable

    if not is_readable(one):
        return "unreadable"
    if one.paused:
        return "paused"
    return "on" if one.declared else "no worker"
