"""Fixtures of the database tests."""

from tests.db.small_migrations import three, write

__all__ = ["three", "write"]
