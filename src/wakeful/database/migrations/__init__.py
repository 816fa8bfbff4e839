"""Numbered changes of the schema, up and down, and whether code and schema fit."""

from wakeful.database.migrations.compatible import acheck_compatible, check_compatible, compatibility
from wakeful.database.migrations.files import SHIPPED, Migration, newest_version, read_migrations
from wakeful.database.migrations.plan import MigrationStatus, plan
from wakeful.database.migrations.run import applied, down, sql, status, up
from wakeful.database.migrations.script import script

__all__ = [
    "SHIPPED",
    "Migration",
    "MigrationStatus",
    "acheck_compatible",
    "applied",
    "check_compatible",
    "compatibility",
    "down",
    "newest_version",
    "plan",
    "read_migrations",
    "script",
    "sql",
    "status",
    "up",
]
