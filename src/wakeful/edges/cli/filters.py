"""The options by which commands choose jobs, and what they may say."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import click

if TYPE_CHECKING:
    from wakeful.statements.read import JobFilter

F = TypeVar("F", bound=Callable[..., Any])


def moment(value: str) -> timedelta | datetime:
    """An age (`90m`, `2 days`) or a moment (`2026-11-15T08:00`, local time unless it says otherwise)."""
    from wakeful.values.duration import nonnegative_duration
    from wakeful.values.errors import InvalidOption

    try:
        return _calendar(value)
    # The calendar ends where a moment's own zone, or this machine's, would lead out of it.
    except (ValueError, OverflowError):
        pass
    try:
        return nonnegative_duration(value, "it")
    except InvalidOption:
        raise click.BadParameter(
            f"{value!r} is neither an age such as 90m or 2d, nor a moment such as 2026-01-31T08:00."
        ) from None


def moment_alone(advice: str = "") -> Callable[[str], datetime]:
    """Reads a moment, and no age; `advice` tells what else there is."""

    def read(value: str) -> datetime:
        try:
            return _calendar(value)
        except (ValueError, OverflowError):
            raise click.BadParameter(f"{value!r} is no moment such as 2026-01-31T08:00.{advice}") from None

    return read


def _calendar(value: str) -> datetime:
    return datetime.fromisoformat(value).astimezone()


def json_text(value: str) -> str:
    """A JSON value, checked here and handed on as text."""
    read_json(value, "--payload")
    return value


def read_json(text: str, what: str) -> Any:
    """The value of a JSON text; a usage error says where it is none."""

    def refuse(constant: str) -> None:
        raise click.UsageError(f"{what} holds {constant}, which is not JSON.")

    def whole(digits: str) -> int:
        try:
            return int(digits)
        except ValueError:
            raise click.UsageError(f"{what} holds an integer of more than 4300 digits: send it as text.") from None

    try:
        return json.loads(text, parse_constant=refuse, parse_int=whole)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise click.UsageError(f"{what} is not JSON: {error.msg.lower()} at {place}.") from None
    except RecursionError:
        raise click.UsageError(f"{what} nests too deeply.") from None


_OPTIONS = (
    click.option("--task", metavar="NAME", help="Only of this task."),
    click.option("--queue", metavar="NAME", help="Only in this queue."),
    click.option("--tenant", metavar="NAME", help="Only of this tenant."),
    click.option("--correlation", type=click.UUID, metavar="ID", help="Only of this correlation."),
    click.option("--error", metavar="TEXT", help="Whose last error has this code, or this in its message."),
    click.option("--payload", type=json_text, metavar="JSON", help="Whose payload contains this: '{\"id\": 7}'."),
    click.option("--since", type=moment, metavar="WHEN", help="No older than this age or moment."),
    click.option("--older-than", type=moment, metavar="WHEN", help="Older than this age or moment."),
)


def filter_options(command: F) -> F:
    """Adds the options; the command gets them as keywords, for `job_filter`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def state_option(command: F) -> F:
    """Adds `--state`; the command gets it as `states`."""
    return click.option(
        "--state", "states", multiple=True, metavar="STATE", help="Only in this state; may be repeated."
    )(command)


def page_options(command: F) -> F:
    """Adds `--limit` and `--after`."""
    after = click.option("--after", type=click.UUID, metavar="ID", help="Go on behind this id.")
    limit = click.option(
        "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, metavar="N", help="At most N."
    )
    return limit(after(command))


def job_filter(
    states: tuple[str, ...] = (),
    *,
    task: str | None = None,
    queue: str | None = None,
    tenant: str | None = None,
    correlation: UUID | None = None,
    error: str | None = None,
    payload: str | None = None,
    since: timedelta | datetime | None = None,
    older_than: timedelta | datetime | None = None,
) -> JobFilter:
    """What the options say."""
    from wakeful.statements.read import JobFilter
    from wakeful.values.state import states_called

    meant = {state: None for word in states for state in states_called(word, "--state")}
    return JobFilter(
        states=list(meant) or None,
        task=task,
        queue=queue,
        tenant=tenant,
        correlation_id=correlation,
        error=error,
        payload=payload,
        since=since if isinstance(since, datetime) else None,
        younger=since if isinstance(since, timedelta) else None,
        before=older_than if isinstance(older_than, datetime) else None,
        older=older_than if isinstance(older_than, timedelta) else None,
    )
