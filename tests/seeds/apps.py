"""An example's app, on a test's database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wakeful import Wakeful
from wakeful.config import load

OPENED = ("database", "producer", "queue", "settings")


@contextmanager
def pointed_at(app: Wakeful, dsn: str) -> Iterator[None]:
    """Let the app use this database, as WAKEFUL_DSN would in a process of its own."""
    before = {name: app.__dict__.pop(name) for name in OPENED if name in app.__dict__}
    app.settings = load({"dsn": dsn})
    try:
        yield
    finally:
        app.close()
        for name in OPENED:
            app.__dict__.pop(name, None)
        app.__dict__.update(before)
