"""`wakeful jobs cancel|retry|bury`: by id, or all that a filter means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import click

from wakeful.edges.cli.acts import by_option, confirm, each, progress, reason_option, yes_option
from wakeful.edges.cli.filters import F, filter_options, job_filter, state_option
from wakeful.edges.cli.options import dsn_option, json_option

if TYPE_CHECKING:
    from wakeful.edges.cli.asking import Asking
    from wakeful.queue.sweep import Act, Portion
    from wakeful.statements.read import JobFilter
    from wakeful.values.errors import WakefulError

# Nobody waits for more to be counted: what is beyond is "more than".
MOST_COUNTED: Final = 100_000

Portions = Mapping[str, "Portion"]
"""What is done to jobs of a state."""


def choosing(command: F) -> F:
    """Ids, or a filter, or `--all`: what an act is about."""
    for option in (
        json_option,
        dsn_option,
        by_option,
        yes_option,
        filter_options,
        state_option,
        click.option("--all", "everything", is_flag=True, help="All that can be, without a filter."),
        click.argument("ids", metavar="[ID]…", type=click.UUID, nargs=-1),
    ):
        command = option(command)
    return command


@click.command()
@choosing
@reason_option
def cancel(reason: str | None, actor: str | None, **chosen: Any) -> int:
    """Cancel jobs, by ID or by filter: a waiting one at once, a running one by asking its worker to stop it."""
    from wakeful.queue import operating
    from wakeful.queue.script import play
    from wakeful.queue.sweep import cancelling

    def one(asking: Asking, id: UUID) -> dict[str, object]:
        return {"answer": play(asking, operating.cancel(id, reason, actor))}

    def portions(answers: Counter[str]) -> Portions:
        return dict.fromkeys(("scheduled", "ready", "running"), cancelling(reason, actor, answers))

    advice = "What is over stays over: --state scheduled, ready or running."
    return _act("Cancel", one, portions, ("scheduled", "ready", "running"), advice, **chosen)


@click.command()
@choosing
def retry(actor: str | None, **chosen: Any) -> int:
    """Start jobs as soon as can be, by ID or by filter: what waits is made ready, what is over is put back anew.

    A filter means scheduled jobs, unless --state says completed or cancelled. Dead ones: `wakeful dead requeue`.
    """
    from wakeful.queue import operating
    from wakeful.queue.script import play
    from wakeful.statements import operate

    def one(asking: Asking, id: UUID) -> dict[str, object]:
        started = play(asking, operating.retry(id, actor))
        return {"answer": "ready"} if started == id else {"answer": "requeued", "as": started}

    def portions(answers: Counter[str]) -> Portions:
        again = _counting("requeued", operate.requeued(actor), answers)
        hurried = _counting("made ready", operate.hurried(actor), answers)
        return {"scheduled": hurried, "completed": again, "cancelled": again}

    advice = "By a filter, --state scheduled, completed or cancelled are retried; dead ones by `wakeful dead requeue`."
    return _act("Retry", one, portions, ("scheduled",), advice, **chosen)


@click.command()
@choosing
@reason_option
def bury(reason: str | None, actor: str | None, **chosen: Any) -> int:
    """Move waiting jobs to the dead letters, by ID or by filter."""
    from wakeful.statements import operate

    why = reason or "buried by hand"

    def one(asking: Asking, id: UUID) -> dict[str, object]:
        asking.run(operate.bury(id, why, actor))
        return {"answer": "buried"}

    def portions(answers: Counter[str]) -> Portions:
        return dict.fromkeys(("scheduled", "ready"), _counting("buried", operate.buried(why, actor), answers))

    advice = "Only what waits can be buried: --state scheduled or ready; cancel what runs."
    return _act("Bury", one, portions, ("scheduled", "ready"), advice, **chosen)


def _act(
    verb: str,
    one: Callable[[Asking, UUID], dict[str, object]],
    portions: Callable[[Counter[str]], Portions],
    default: Sequence[str],
    advice: str,
    *,
    ids: Sequence[UUID],
    states: tuple[str, ...],
    everything: bool,
    yes: bool,
    dsn: str | None,
    as_json: bool,
    **chosen: Any,
) -> int:
    by_filter = bool(states) or any(value is not None for value in chosen.values())
    if bool(ids) + by_filter + everything != 1:
        raise click.UsageError("Say which: IDs, a filter such as --task, or --all; one of the three.")
    if ids:
        return each(ids, dsn, as_json, one)
    answers: Counter[str] = Counter()
    able = portions(answers)
    wanted = job_filter(states or tuple(default), **chosen)
    if set(wanted.states or ()) - able.keys():
        raise click.UsageError(advice)
    _act_on_all(verb, wanted, able, answers, yes, dsn)
    return _tell(answers, as_json)


def _act_on_all(
    verb: str, wanted: JobFilter, able: Portions, answers: Counter[str], yes: bool, dsn: str | None
) -> None:
    """Count, ask, and do it, with a bar on a terminal."""
    from wakeful.edges.cli.asking import acting
    from wakeful.queue.script import play
    from wakeful.queue.sweep import sweep
    from wakeful.statements import read

    with acting(dsn) as asking:
        meant = len(asking.run(read.search(wanted, limit=MOST_COUNTED + 1)).ids)
        if meant:
            confirm(f"{verb} {_counted(meant)}?", yes)
        with progress(meant, verb) as told:
            for portion, states in _by_portion(able, wanted.states or ()).items():
                play(asking, sweep(read.ids_of(wanted.of(states)), portion, told=told))


def _by_portion(able: Portions, states: Collection[str]) -> dict[Portion, list[str]]:
    """The states that are seen to alike."""
    alike: dict[Portion, list[str]] = {}
    for state in states:
        alike.setdefault(able[state], []).append(state)
    return alike


def _counting(word: str, act: Act, answers: Counter[str]) -> Portion:
    from wakeful.queue.script import Script
    from wakeful.queue.sweep import together

    def refused(error: WakefulError) -> None:
        answers["refused"] += 1
        click.echo(f"wakeful: {error.message}", err=True)

    def portion(ids: Sequence[UUID]) -> Script[int]:
        done = yield from together(ids, act, refused)
        answers[word] += done
        return done

    return portion


_WORDS: Final = {"requested": "asked to stop", "busy": "locked by others", "over": "over already"}


def _tell(answers: Counter[str], as_json: bool) -> int:
    from wakeful.edges.cli.showing import print_json

    if as_json:
        print_json({word.replace(" ", "_"): count for word, count in answers.items()})
    else:
        told = ", ".join(f"{_counted(count)} {_WORDS.get(word, word)}" for word, count in answers.items() if count)
        click.echo(f"{told or 'No job is meant'}.")
    return int(answers["busy"] + answers["refused"] > 0)


def _counted(count: int) -> str:
    if count > MOST_COUNTED:
        return f"more than {MOST_COUNTED:,} jobs"
    return "1 job" if count == 1 else f"{count:,} jobs"
