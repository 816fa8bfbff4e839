"""`wakeful doctor`: the server, its settings and our schema, each finding with its remedy."""

from __future__ import annotations

import time

import click

from wakeful.edges.cli.health import show_findings
from wakeful.edges.cli.options import dsn_option, json_option


@click.command()
@dsn_option
@json_option
def doctor(dsn: str | None, as_json: bool) -> int:
    """Examine the server and the schema; exit 1 when something must be repaired."""
    from wakeful.database.migrations.files import read_migrations, read_shape
    from wakeful.edges.cli.asking import reading
    from wakeful.observe.examine import examine
    from wakeful.statements import inspect
    from wakeful.statements.schema import applied_migrations

    with reading(dsn) as asking:
        # A pooler hands out a process number of its own, the server answers with the real one.
        pooled = asking.run(inspect.backend()) != asking.process
        before = time.time()
        server = asking.run(inspect.server())
        difference = (before + time.time()) / 2 - float(server["clock"])
        vitals = asking.run(inspect.vitals())
        ledger = asking.run(applied_migrations())
        asking.run(inspect.plain_names())
        shape = asking.run(inspect.shape())
    findings = examine(
        server,
        vitals,
        pooled=pooled,
        clock_difference=difference,
        shipped=[migration.up for migration in read_migrations()],
        schema_version=max(one.version for one in ledger),
        shape=shape,
        shipped_shape=read_shape(),
    )
    return show_findings(findings, {"vitals": vitals}, as_json)
