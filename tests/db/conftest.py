"""Fixtures of the database tests."""

from tests.db.queues import app, db, queue, start, verbs
from tests.db.small_migrations import three, write

__all__ = ["app", "db", "queue", "start", "three", "verbs", "write"]
