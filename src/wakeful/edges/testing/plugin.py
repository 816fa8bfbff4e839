"""A pytest plugin, which pytest finds by itself: ask for the fixture `database`, or for `sandbox`.

The server is an embedded one, kept in pytest's cache folder and shared by all processes of a run.
`--postgres-bin` takes the programs of another PostgreSQL version; `WAKEFUL_TEST_DSN` names a running server.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from wakeful.app import Wakeful
    from wakeful.edges.testing.databases import Database, Databases
    from wakeful.edges.testing.sandbox import Sandbox

# Nothing in a test database outlives the machine, so durability is only a cost there.
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "200",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--postgres-bin`."""
    parser.getgroup("wakeful").addoption(
        "--postgres-bin",
        metavar="DIR",
        default=os.environ.get("WAKEFUL_TEST_POSTGRES_BIN"),
        help="run the database tests with the PostgreSQL programs in this folder",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the programs where they are not the usual ones."""
    folder: str | None = config.getoption("--postgres-bin")
    return f"postgres: {folder}" if folder else None


@pytest.fixture(scope="session")
def databases(request: pytest.FixtureRequest) -> Iterator[Databases]:
    """The server that the tests' databases live on, and the means to make more of them."""
    from wakeful.edges.testing.databases import Databases

    given = os.environ.get("WAKEFUL_TEST_DSN")
    found = Databases(given or _embedded(request.config), local=not given)
    yield found
    found.close()


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    """A migrated database of this test's own."""
    with databases.migrated() as cloned:
        yield cloned


@pytest.fixture
def sandbox(database: Database) -> Iterator[Callable[[Wakeful], Sandbox]]:
    """`sandbox(app)` puts an app on this test's database: drain it, travel in time, look for what it enqueued."""
    from wakeful.edges.testing.sandbox import sandboxed

    with ExitStack() as stack:
        yield lambda app: stack.enter_context(sandboxed(app, database))


@pytest.fixture
def blank_database(databases: Databases) -> Iterator[Database]:
    """An empty database of this test's own, without our schema."""
    with databases.blank() as created:
        yield created


def _embedded(config: pytest.Config) -> str:
    from wakeful.database.embedded import ensure
    from wakeful.edges.testing.memory import forget_what_is_lost

    folder: str | None = config.getoption("--postgres-bin")
    with pytest.MonkeyPatch.context() as patch:
        if folder:
            patch.setenv("WAKEFUL_PG_BIN", folder)
        directory = _directory(config, folder)
        forget_what_is_lost(directory)
        return ensure(directory, settings=SETTINGS).dsn


def _directory(config: pytest.Config, folder: str | None) -> Path:
    key = hashlib.sha256((folder or "").encode()).hexdigest()[:8]
    # With `-p no:cacheprovider` pytest does not even set the attribute.
    cache: pytest.Cache | None = getattr(config, "cache", None)
    if cache is None:
        raise pytest.UsageError(
            "wakeful keeps its test server in pytest's cache: leave that on (no `-p no:cacheprovider`)."
        )
    return cache.mkdir(f"wakeful-{key}")
