"""`wakeful breakers list|reset|trip`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from wakeful.edges.cli.acts import by_option, reason_option
from wakeful.edges.cli.options import dsn_option, json_option

if TYPE_CHECKING:
    from wakeful.values.report import BreakerReport


@click.group()
def breakers() -> None:
    """See circuit breakers, and open or close them by hand."""


@breakers.command("list")
@dsn_option
@json_option
def list_breakers(dsn: str | None, as_json: bool) -> None:
    """List the breakers, those that are not closed first."""
    from wakeful.edges.cli.asking import reading
    from wakeful.edges.cli.showing import age, print_json, print_table
    from wakeful.statements import policy

    with reading(dsn) as asking:
        found = asking.run(policy.breakers())
    if as_json:
        print_json(found)
        return
    print_table(
        ("BREAKER", "STATE", "FAILURES", "LAST FAILURE", "OPENED", "NEXT PROBE", "TASKS"),
        [
            (
                *(one.name, one.state, f"{one.failure_count} of {one.threshold}", age(one.last_failure_at)),
                *(age(one.opened_at) if one.state != "closed" else "", _probe(one), ", ".join(one.tasks)),
            )
            for one in found
        ],
        spare=("TASKS",),
    )


@breakers.command()
@click.argument("name")
@by_option
@reason_option
@dsn_option
@json_option
def reset(name: str, actor: str | None, reason: str | None, dsn: str | None, as_json: bool) -> None:
    """Close breaker NAME: what waits behind it starts at once."""
    from wakeful.edges.cli.asking import acting
    from wakeful.edges.cli.showing import print_json
    from wakeful.statements import policy

    with acting(dsn) as asking:
        asking.run(policy.reset(name, actor, reason))
    if as_json:
        print_json({"breaker": name, "state": "closed"})
    else:
        click.echo(f"Breaker {name} is closed.")


@breakers.command()
@click.argument("name")
@click.option("--for", "length", metavar="TIME", help="Until the first probe: 90s, 10m (the breaker's own).")
@by_option
@reason_option
@dsn_option
@json_option
def trip(name: str, length: str | None, actor: str | None, reason: str | None, dsn: str | None, as_json: bool) -> None:
    """Open breaker NAME: nothing behind it starts until a probe succeeds, or someone resets it."""
    from wakeful.edges.cli.asking import acting
    from wakeful.edges.cli.showing import print_json
    from wakeful.statements import policy

    span = _length(length)
    with acting(dsn) as asking:
        _require(name, [one.name for one in asking.run(policy.breakers())])
        asking.run(policy.trip(name, span, actor, reason))
    if as_json:
        print_json({"breaker": name, "state": "open"})
    else:
        click.echo(f"Breaker {name} is open.")


def _require(name: str, names: list[str]) -> None:
    """A breaker that nobody declared would open before nothing, while the traffic goes on."""
    from wakeful.edges.cli.acquaintance import nearest
    from wakeful.values.errors import Refused

    if name not in names:
        raise Refused(f"No breaker is called {name}: {nearest(name, names) or 'see `wakeful breakers list`.'}")


def _length(text: str | None) -> timedelta | None:
    from wakeful.values.duration import positive_duration

    return None if text is None else positive_duration(text, "--for")


def _probe(one: BreakerReport) -> str:
    from wakeful.edges.cli.showing import age

    return "now" if one.state == "half_open" else age(one.next_probe_at)
