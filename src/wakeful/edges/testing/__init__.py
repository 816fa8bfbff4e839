"""For test suites: a migrated PostgreSQL database for each test, nothing installed, nothing mocked."""

from wakeful.edges.testing.databases import Database, Databases

__all__ = ["Database", "Databases"]
