"""For test suites: a migrated PostgreSQL database for each test, an app's jobs run in place, time that can be moved."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wakeful.edges.testing.databases import Database, Databases
    from wakeful.edges.testing.sandbox import Sandbox, sandboxed

__all__ = ["Database", "Databases", "Sandbox", "sandboxed"]

_HOMES = {"Database": "databases", "Databases": "databases", "Sandbox": "sandbox", "sandboxed": "sandbox"}


def __getattr__(name: str) -> object:
    # Every pytest run of a project that has wakeful installed loads the plugin: it must not cost a driver.
    if name in _HOMES:
        return getattr(import_module(f"wakeful.edges.testing.{_HOMES[name]}"), name)
    raise AttributeError(name)
