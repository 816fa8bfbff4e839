"""A session, and the command, on a test's database."""

from tests.acceptance.commands import db, wakeful

__all__ = ["db", "wakeful"]
