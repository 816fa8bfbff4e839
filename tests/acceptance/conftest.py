"""Fixtures of the acceptance tests."""

from tests.acceptance.commands import db, wakeful

__all__ = ["db", "wakeful"]
