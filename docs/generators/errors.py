"""docs/reference/errors.md, from `wakeful.values.errors`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

from docs.generators.markdown import anchor, code, joined, paragraphs, table
from wakeful.edges.cli.main import USAGE_ERRORS
from wakeful.values import errors
from wakeful.values.errors import WakefulError

INTRO = """
# Errors

Everything that wakeful raises of its own accord is a `WakefulError`. Each error carries its facts as attributes, and
its message ends in what to do. An error that SQL raises has a reserved SQLSTATE, so that other languages can tell it
too; its facts are then JSON in DETAIL, and the advice is in HINT. Other errors of the database (a deadlock, a
serialization failure, a timeout) reach the caller as the driver raises them, since a caller's retry loop looks for
those.

A command of the CLI prints the message on stderr, and exits with the code below.
"""


def page() -> str:
    """The page."""
    kinds = list(tree(WakefulError))
    overview = table(
        ["error", "SQLSTATE", "exit code"],
        [(f"[{kind.__name__}]({anchor(kind.__name__)})", code(kind.sqlstate or ""), exit_code(kind)) for kind in kinds],
    )
    return joined(INTRO, overview, *[section(kind) for kind in kinds])


def tree(root: type[WakefulError]) -> Iterator[type[WakefulError]]:
    """Every public error below the root, in the order of their file."""
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, root) and kind is not root:
            yield kind


def section(kind: type[WakefulError]) -> str:
    """What one error means, carries and says."""
    names = attributes(kind)
    carried = f"Carries {', '.join(map(code, names))}." if names else ""
    return joined(f"## {kind.__name__}", *paragraphs(kind.__doc__), carried, example(kind))


def attributes(kind: type[WakefulError]) -> list[str]:
    """What can be read from it beside the message."""
    return [name for name in inspect.signature(kind).parameters if name != "message"]


def example(kind: type[WakefulError]) -> str:
    """What it says when no more is known; nothing where it must be told more."""
    needed = [one.name for one in inspect.signature(kind).parameters.values() if one.default is inspect.Parameter.empty]
    make: Callable[[], WakefulError] = kind
    return "" if needed else f"> {make()}"


def exit_code(kind: type[WakefulError]) -> str:
    """Of a command that ends by it."""
    return "2" if issubclass(kind, USAGE_ERRORS) else "1"
