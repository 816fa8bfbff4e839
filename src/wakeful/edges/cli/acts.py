"""What commands share that change something: who does it, and whether it is meant."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import click

from wakeful.edges.cli.__main__ import INTERRUPTED
from wakeful.values.errors import WakefulError

if TYPE_CHECKING:
    from wakeful.edges.cli.asking import Asking

Act = Callable[["Asking", UUID], dict[str, object]]
"""What is done to one job, and what is told of it: at least an `answer`."""

F = TypeVar("F", bound=Callable[..., Any])

IDS_AT_ONCE: Final = 200


class Interrupted(click.ClickException):
    """Ctrl-C, with more to say than that."""

    exit_code = INTERRUPTED


def by_option(command: F) -> F:
    """`--by`: who is noted to have done it."""

    def choose(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
        return value or _user()

    return click.option(
        "--by", "actor", metavar="NAME", envvar="WAKEFUL_ACTOR", callback=choose, help="Who does it (you)."
    )(command)


def reason_option(command: F) -> F:
    """`--reason`: why, for whoever reads it later."""
    return click.option("--reason", metavar="TEXT", help="Why, for whoever asks later.")(command)


def yes_option(command: F) -> F:
    """`--yes`: do not ask."""
    return click.option("--yes", is_flag=True, help="Do not ask.")(command)


def confirm(question: str, yes: bool) -> None:
    """Ask a person; where there is none, `--yes` has to say it."""
    if yes:
        return
    nobody = click.UsageError(f"{question} Nobody is there to ask: add --yes.")
    if not sys.stdin.isatty():
        raise nobody
    try:
        meant = click.confirm(question, err=True)
    except click.Abort as error:
        # Ctrl-D and Ctrl-C come as one.
        if isinstance(error.__context__, EOFError):
            raise nobody from None
        raise
    if not meant:
        raise click.ClickException("Nothing was changed.")


def each(ids: Sequence[UUID], dsn: str | None, as_json: bool, act: Act) -> int:
    """Do it to each of the jobs, whatever becomes of the others; exit 1 when one was refused."""
    from wakeful.edges.cli.asking import acting
    from wakeful.edges.cli.showing import print_json

    told: list[dict[str, object]] = []
    with acting(dsn) as asking:
        for id in dict.fromkeys(ids):
            try:
                told.append({"id": id, **act(asking, id)})
            except WakefulError as error:
                told.append({"id": id, "error": error.message})
    if as_json:
        print_json(told)
    for one in told:
        if "error" in one:
            click.echo(f"wakeful: {one['error']}", err=True)
        elif not as_json:
            others = [str(value) for name, value in one.items() if name not in ("id", "answer")]
            click.echo("  ".join([str(one["id"]), str(one["answer"]), *others]))
    return int(any("error" in one for one in told))


@contextmanager
def progress(total: int, label: str) -> Iterator[Callable[[int], None]]:
    """A bar that moves on a terminal, where there is much to do: it is told how many more are done."""
    if total <= IDS_AT_ONCE or not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=total, label=label, file=sys.stderr) as bar:
        yield bar.update


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # A container's user without a name: the database's user is noted.
        return None
