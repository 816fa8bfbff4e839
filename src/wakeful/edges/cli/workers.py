"""`wakeful workers list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wakeful.edges.cli.options import dsn_option, json_option

if TYPE_CHECKING:
    from wakeful.values.report import WorkerReport


@click.group()
def workers() -> None:
    """See the workers."""


@workers.command("list")
@dsn_option
@json_option
def list_workers(dsn: str | None, as_json: bool) -> None:
    """List the workers on the register, those alive first."""
    from wakeful.edges.cli.asking import reading
    from wakeful.edges.cli.showing import age, print_json, print_table
    from wakeful.statements import read_fleet

    with reading(dsn) as asking:
        found = asking.run(read_fleet.workers())
    if as_json:
        print_json(found)
        return
    print_table(
        ("ID", "NAME", "STATE", "RUNNING", "BEAT", "UP", "QUEUES", "TASKS"),
        [
            (
                *(one.id, one.name, _state(one), f"{one.running}/{one.slots}", age(one.beat_at)),
                *(age(one.started_at), _names(one.queues), _names(one.tasks)),
            )
            for one in found
        ],
        spare=("QUEUES", "UP", "TASKS", "RUNNING"),
    )


def _state(worker: WorkerReport) -> str:
    if not worker.alive:
        return "lapsed"
    return "asleep" if worker.asleep else "busy"


def _names(names: tuple[str, ...] | None) -> str:
    return "all" if names is None else ", ".join(names)
