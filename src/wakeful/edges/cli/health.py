"""`wakeful health`: is the queue well, and if not, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from wakeful.edges.cli.options import dsn_option, json_option

if TYPE_CHECKING:
    from wakeful.values.finding import Finding

MARKS = {"ok": "ok", "warning": "warning", "failing": "FAILING"}


def span(text: str) -> timedelta:
    """A duration of more than zero."""
    from wakeful.values.duration import duration
    from wakeful.values.errors import InvalidOption

    try:
        length = duration(text)
    except InvalidOption:
        length = timedelta(0)
    if length <= timedelta(0):
        raise click.BadParameter(f"{text!r} is no duration such as 90s, 5m or 1h.")
    return length


@click.command()
@click.option(
    "--max-age", type=span, default="5m", show_default=True, metavar="SPAN", help="A ready job may wait this long."
)
@click.option(
    "--stuck-after", type=span, default="1h", show_default=True, metavar="SPAN", help="A job may run this long."
)
@dsn_option
@json_option
def health(max_age: timedelta, stuck_after: timedelta, dsn: str | None, as_json: bool) -> int:
    """Tell whether the queue is well; exit 1 when it is not."""
    from wakeful.edges.cli.asking import reading
    from wakeful.observe.verdict import HealthLimits, judge
    from wakeful.statements import inspect
    from wakeful.values.errors import DatabaseUnavailable, SchemaMismatch
    from wakeful.values.finding import Finding

    try:
        with reading(dsn) as asking:
            facts = asking.run(inspect.health(stuck_after))
    except (DatabaseUnavailable, SchemaMismatch) as error:
        if not as_json:
            raise
        name = "database" if isinstance(error, DatabaseUnavailable) else "schema"
        return show_findings([Finding(name, "failing", error.message)], {}, as_json)
    return show_findings(judge(facts, HealthLimits(max_age, stuck_after)), {"facts": facts}, as_json)


def show_findings(findings: Sequence[Finding], more: dict[str, object], as_json: bool) -> int:
    """Print them; the exit code says whether something fails."""
    from wakeful.edges.cli.showing import print_hanging, print_json
    from wakeful.values.finding import worst

    level = worst(findings)
    if as_json:
        print_json({"status": level, "healthy": level != "failing", "findings": list(findings), **more})
        return int(level == "failing")
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print_hanging(f"{MARKS[finding.level]:<8} {finding.name:<{width}}  ", finding.told)
        if finding.remedy is not None and finding.level != "ok":
            print_hanging(f"{'':<8} {'':<{width}}  → ", finding.remedy)
    return int(level == "failing")
