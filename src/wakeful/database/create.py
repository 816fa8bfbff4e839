"""Databases that are made for an occasion."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from wakeful.values.errors import Refused


def create_database(admin: psycopg.Connection[Any], name: str, occasion: str) -> None:
    """Create an empty database for `occasion`; Refused where this user may not."""
    try:
        admin.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
    except psycopg.errors.InsufficientPrivilege:
        raise Refused(
            f"This user may not create a database, which {occasion} needs: "
            "grant CREATEDB to it, or give the DSN of one that may."
        ) from None
