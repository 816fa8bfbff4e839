"""What a page needs that does not belong into its source: the README shows one script, and nothing around it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from textwrap import dedent

from django.db import connections

from tests.db.stacks import django_alias, url
from tests.docs.snippets import ROOT, Snippet
from wakeful.testing import Database
from wakeful.worker import Worker
from wakeful.worker.summary import Summary

# Played on an embedded server of their own, as a reader without PostgreSQL would.
EMBEDDED = {"docs/tutorial.md"}

# The module that a page's Python code is; `shop` for the others.
MODULES = {"README.md": "myapp"}


def default_django_database(dsn: str) -> Callable[[], None]:
    """Make this Django's default database; what is returned takes that back."""
    stack = ExitStack()
    alias = stack.enter_context(django_alias(Database(dsn, "")))
    connections.settings["default"] = connections.settings[alias]
    stack.callback(connections.settings.__delitem__, "default")
    stack.callback(lambda: connections["default"].close())
    return stack.close


def as_url(database: Database) -> str:
    """The database's address as people write it."""
    return url(database, "psycopg").set(drivername="postgresql").render_as_string(hide_password=False)


def until_idle(database: Database) -> Callable[[Worker], Summary]:
    """In place of a worker that runs for ever: one that is stopped once nothing is ready or running."""

    async def work(worker: Worker) -> Summary:
        started = asyncio.Event()
        running = asyncio.create_task(worker.arun(started=started.set))
        await started.wait()
        await asyncio.to_thread(nothing_left, database)
        worker.stop()
        return await running

    return lambda worker: asyncio.run(work(worker))


def nothing_left(database: Database) -> None:
    """Wait until no job is ready or running."""
    with database.connect() as conn:
        while conn.execute("select 1 from wakeful.job where state > 0 limit 1").fetchone():
            time.sleep(0.05)


def hidden(page: str, language: str, text: str, **remarks: str) -> Snippet:
    """A snippet that no reader sees."""
    return Snippet(ROOT / page, 1, language, dedent(text), remarks)


BEFORE = {
    "README.md": [
        hidden("README.md", "sql", "create table account (id int, welcomed bool default false)"),
        hidden("README.md", "sql", "insert into account (id) values (7)"),
        hidden(
            "README.md",
            "python",
            """
            import os
            import psycopg
            session = psycopg.connect(os.environ["WAKEFUL_DSN"], autocommit=True)
            """,
        ),
    ],
    # Or pytest takes what lies in a folder above.
    "docs/how-to/testing.md": [hidden("docs/how-to/testing.md", "ini", "[pytest]\n", file="pytest.ini")],
}
AFTER = {
    "README.md": [
        hidden("README.md", "sql", "select welcomed from account"),
        hidden("README.md", "output", "welcomed\nTrue"),
        hidden("README.md", "python", "session.close()"),
    ]
}
