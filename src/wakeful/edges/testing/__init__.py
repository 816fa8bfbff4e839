"""For test suites: a migrated PostgreSQL database for each test, nothing installed, nothing mocked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wakeful.edges.testing.databases import Database, Databases

__all__ = ["Database", "Databases"]


def __getattr__(name: str) -> object:
    # Every pytest run of a project that has wakeful installed loads the plugin: it must not cost a driver.
    if name in __all__:
        from wakeful.edges.testing import databases

        return getattr(databases, name)
    raise AttributeError(name)
