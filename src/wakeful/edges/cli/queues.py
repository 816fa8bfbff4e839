"""`wakeful queues list|pause|resume`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from wakeful.edges.cli.acts import by_option, reason_option
from wakeful.edges.cli.filters import F
from wakeful.edges.cli.options import dsn_option, json_option

if TYPE_CHECKING:
    from wakeful.values.report import QueueReport, TaskSwitch


@click.group()
def queues() -> None:
    """See queues, and pause or resume them or single tasks."""


@queues.command("list")
@click.option("--tasks", is_flag=True, help="The tasks that are paused or switched off, instead.")
@dsn_option
@json_option
def list_queues(tasks: bool, dsn: str | None, as_json: bool) -> None:
    """List the queues that have live jobs, or that someone has paused or resumed."""
    from wakeful.edges.cli.asking import reading
    from wakeful.edges.cli.showing import print_json
    from wakeful.statements import read_fleet

    with reading(dsn) as asking:
        found = asking.run(read_fleet.queues())
        steered = asking.run(read_fleet.task_switches())
    if as_json:
        print_json(steered if tasks else found)
    elif tasks:
        _print_tasks(steered)
    else:
        _print_queues(found)
        if paused := ", ".join(one.task for one in steered if one.paused):
            click.echo(f"Paused tasks: {paused}. See `wakeful queues list --tasks`.", err=True)


def steering(command: F) -> F:
    """A queue's name, or `--task`; who and why."""
    decorators: tuple[Callable[[F], F], ...] = (
        json_option,
        dsn_option,
        by_option,
        reason_option,
        click.option("--task", metavar="NAME", help="A task, in whichever queue, instead of a queue."),
        click.argument("queue", required=False),
    )
    for decorate in decorators:
        command = decorate(command)
    return command


@queues.command()
@steering
def pause(
    queue: str | None, task: str | None, reason: str | None, actor: str | None, dsn: str | None, as_json: bool
) -> None:
    """Start no more jobs of QUEUE, or of a task, until it is resumed; what runs goes on."""
    _steer("paused", queue, task, reason, actor, dsn, as_json)


@queues.command()
@steering
def resume(
    queue: str | None, task: str | None, reason: str | None, actor: str | None, dsn: str | None, as_json: bool
) -> None:
    """Go on with QUEUE, or with a task; workers are woken at once."""
    _steer("resumed", queue, task, reason, actor, dsn, as_json)


def _steer(
    done: str,
    queue: str | None,
    task: str | None,
    reason: str | None,
    actor: str | None,
    dsn: str | None,
    as_json: bool,
) -> None:
    from wakeful.edges.cli.acquaintance import unknown
    from wakeful.edges.cli.asking import acting
    from wakeful.edges.cli.showing import print_json
    from wakeful.statements import operate, read_fleet
    from wakeful.values.names import queue_name, task_name

    if (queue is None) == (task is None):
        raise click.UsageError("Name a queue, or a task with --task; one of the two.")
    verbs = {
        ("queue", "paused"): operate.pause_queue,
        ("queue", "resumed"): operate.resume_queue,
        ("task", "paused"): operate.pause_task,
        ("task", "resumed"): operate.resume_task,
    }
    kind = "queue" if task is None else "task"
    name = queue_name(queue or "") if task is None else task_name(task)
    with acting(dsn) as asking:
        was_paused = asking.run(read_fleet.is_paused(kind, name))
        asking.run(verbs[kind, done](name, actor, reason))
        # Asked afterwards: a pause is not to wait for it.
        doubt = None if was_paused else unknown(asking, kind, name)
    changed = done == "paused" or was_paused
    if as_json:
        print_json({kind: name, "paused": done == "paused"})
    else:
        click.echo(f"{kind.capitalize()} {name} {f'is {done}' if changed else 'was not paused'}.")
    if doubt is not None:
        click.echo(f"wakeful: {doubt}", err=True)


def _print_queues(found: list[QueueReport]) -> None:
    from wakeful.edges.cli.showing import age, print_table

    print_table(
        ("QUEUE", "READY", "OLDEST", "SCHEDULED", "RUNNING", "PAUSED", "BY", "REASON"),
        [
            (
                *(one.queue, one.ready, age(one.oldest_ready_at), one.scheduled, one.running, one.paused),
                *((one.changed_by, one.reason) if one.paused else ("", "")),
            )
            for one in found
        ],
    )


def _print_tasks(found: list[TaskSwitch]) -> None:
    from wakeful.edges.cli.showing import age, print_table

    words = {None: "", True: "on", False: "off"}
    print_table(
        ("TASK", "PAUSED", "ENQUEUING", "SINCE", "BY", "REASON"),
        [
            (one.task, one.paused, words[one.enqueuing], age(one.changed_at), one.changed_by, one.reason)
            for one in found
        ],
    )
