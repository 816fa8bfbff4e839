"""docs/reference/sql.md, from the schema files: their headers, signatures, grants and domains."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from docs.generators.markdown import anchor, code, joined, promise, table
from docs.generators.schema import Function, Topic, View, grants, role_sets, sizes, topics, views
from wakeful.values.errors import BY_SQLSTATE

INTRO = """
# SQL

Everything below is in the schema `wakeful`. Functions are SECURITY DEFINER, so a role needs no right on any table. Name
the arguments: `queue => 'mail'`. Public signatures do not change within a major version.
[From SQL and other languages](../how-to/sql.md) shows them at work.
"""
VERSIONED = """
Python's workers and `app.queue` call these. They carry a version in their name: a change makes a new one, and the old
one stays for one release, so that workers of two releases run side by side. They are no public interface.
"""


def page() -> str:
    """The page."""
    roles = grants()
    granted = [(topic, [one for one in topic.functions if one.name in roles]) for topic in topics()]
    public = [(topic, [one for one in found if not is_versioned(one)]) for topic, found in granted]
    versioned = [one for _, found in granted for one in found if is_versioned(one)]
    return joined(
        INTRO,
        "## Roles",
        "Roles without login, to be granted to your own. An owner, and a superuser, may do everything.",
        roles_table(roles, [one.name for _, found in public for one in found]),
        "## SQLSTATEs",
        table(["SQLSTATE", "error in Python", "when"], sqlstates()),
        "## Sizes",
        table(["value", "rule"], [(code(name), rule) for name, rule in sizes()]),
        *[section(topic, found, roles) for topic, found in public if found],
        "## Views",
        *[view_section(view) for view in views()],
        "## For workers only",
        VERSIONED,
        *[function_section(one, roles[one.name]) for one in versioned],
    )


def is_versioned(function: Function) -> bool:
    """Whether only our own clients call it."""
    return function.name.rpartition("_")[2].isdigit()


def roles_table(roles: Mapping[str, tuple[str, ...]], public: Iterable[str]) -> str:
    """Which role may call what, beside what all may."""
    listed = list(public)
    everyone = role_sets()["all"]
    rows = []
    for role in everyone:
        own = [name for name in listed if role in roles[name] and roles[name] != everyone]
        reads = ["all views"] if role in role_sets()["viewer"] else []
        rows.append((code(role), ", ".join([*(link(name) for name in own), *reads])))
    shared = [link(name) for name in listed if roles[name] == everyone]
    return table(["role", "may call"], [*rows, ("all four", ", ".join(shared))])


def link(name: str) -> str:
    """A link to a function's section."""
    return f"[{name}]({anchor(f'wakeful.{name}')})"


def sqlstates() -> list[tuple[str, str, str]]:
    """The reserved SQLSTATEs."""
    return [
        (code(state), f"[{kind.__name__}](errors.md{anchor(kind.__name__)})", promise(kind.__doc__))
        for state, kind in BY_SQLSTATE.items()
    ]


def section(topic: Topic, functions: Iterable[Function], roles: Mapping[str, tuple[str, ...]]) -> str:
    """The public functions of one schema file."""
    return joined(
        f"## {topic.title}",
        *topic.remarks,
        *[function_section(one, roles[one.name]) for one in functions],
    )


def function_section(function: Function, roles: tuple[str, ...]) -> str:
    """One function."""
    names = "all four roles" if roles == role_sets()["all"] else ", ".join(map(code, roles))
    return joined(
        f"### wakeful.{function.name}",
        function.comment,
        f"```text\n{signature(function)}\n```",
        f"For {names}.",
    )


def signature(function: Function) -> str:
    """The signature, an argument a line where they do not fit on one."""
    arguments = function.arguments
    one_line = f"wakeful.{function.name}({', '.join(arguments)}) returns {function.returns}"
    if len(one_line) <= 110:
        return one_line
    listed = ",\n".join(f"    {argument}" for argument in arguments)
    answer = re.sub(r"(.{60,100}?), ", r"\1,\n    ", function.returns)
    return f"wakeful.{function.name}(\n{listed}\n) returns {answer}"


def view_section(view: View) -> str:
    """One view."""
    return joined(f"### wakeful.{view.name}", view.comment, f"Columns: {', '.join(map(code, view.columns))}.")
