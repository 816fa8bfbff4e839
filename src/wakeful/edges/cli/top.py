"""`wakeful top`: queues, workers, running jobs and failures, live."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

from wakeful.edges.cli.acts import by_option
from wakeful.edges.cli.options import dsn_option, json_option

if TYPE_CHECKING:
    from wakeful.edges.cli.asking import Asking


@click.command()
@click.option(
    "--every",
    type=click.FloatRange(0.2, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Look this often.",
)
@by_option
@dsn_option
@json_option
def top(every: float, actor: str | None, dsn: str | None, as_json: bool) -> None:
    """Watch the queue live: throughput, queues, running jobs, failures, workers; keys pause, requeue, acknowledge."""
    from wakeful.edges.cli.asking import acting, reading
    from wakeful.edges.cli.showing import print_json
    from wakeful.edges.top.scene import look

    # Told here, before the screen is cleared: no server, no schema, no right to look.
    with reading(dsn) as asking:
        scene = look(asking, None)
    if as_json:
        print_json(scene)
        return
    if not sys.stdout.isatty():
        raise click.UsageError("top needs a terminal: without one, use --json or `wakeful stats`.")
    try:
        from wakeful.edges.top.screen import Top
    except ImportError:
        raise click.ClickException("top needs textual: install wakeful[top].") from None

    def connects() -> AbstractContextManager[Asking]:
        return acting(dsn)

    Top(connects, every=every, actor=actor).run()
