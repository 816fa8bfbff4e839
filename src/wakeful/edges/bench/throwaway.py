"""A database that is made for the occasion, and gone afterwards with everything that came with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql

from wakeful.database import migrations
from wakeful.database.address import with_database
from wakeful.database.connect import connect
from wakeful.database.create import create_database

_OUR_ROLES = "select rolname from pg_catalog.pg_roles where rolname like 'wakeful\\_%'"


@contextmanager
def throwaway(dsn: str) -> Iterator[str]:
    """The address of a migrated database on the server of `dsn`. Blocks while it is made and dropped.

    Roles are the cluster's: those that the migration makes, and that were not there before, are dropped too.
    """
    name = f"wakeful_bench_{os.getpid()}"
    with connect(dsn, name="wakeful bench") as admin:
        before = _roles(admin)
        create_database(admin, name, "the benchmark")
        try:
            address = with_database(dsn, name)
            with connect(address, name="wakeful bench") as conn:
                migrations.up(conn)
            yield address
        finally:
            admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
            for role in _roles(admin) - before:
                # Someone else may have come to need it meanwhile.
                with suppress(psycopg.Error):
                    admin.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


def _roles(admin: psycopg.Connection[Any]) -> set[str]:
    return {name for (name,) in admin.execute(_OUR_ROLES)}
