"""docs/reference/python.md, from what `import wakeful` exports."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import wakeful
from docs.generators.markdown import anchor, code, joined, paragraphs, promise, table
from wakeful.produce.options import EnqueueOptions
from wakeful.task import TaskOptions
from wakeful.values.errors import WakefulError

INTRO = """
# Python

What `import wakeful` exports. Errors have [a page of their own](errors.md). A verb that is awaited has the name of the one
that blocks with an `a` in front: `enqueue` and `aenqueue` do the same.
"""
# What tasks and jobs are told, where `**options` stands in a signature.
OPTIONS = {"TaskOptions": TaskOptions, "EnqueueOptions": EnqueueOptions}
TAKES = {"TaskOptions": "What `@app.task(…)` takes.", "EnqueueOptions": "What `using` and every `enqueue` take."}


def page() -> str:
    """The page."""
    names = [name for name in sorted(wakeful.__all__) if is_documented(getattr(wakeful, name))]
    overview = table(
        ["name", ""], [(f"[{code(name)}]({anchor(name)})", promise(getattr(wakeful, name).__doc__)) for name in names]
    )
    return joined(
        INTRO,
        overview,
        *[section(name, getattr(wakeful, name)) for name in names],
        *[options_section(name, kind) for name, kind in OPTIONS.items()],
    )


def is_documented(value: object) -> bool:
    """Whether it belongs here: classes and functions, but no errors."""
    return callable(value) and not (isinstance(value, type) and issubclass(value, WakefulError))


def section(name: str, value: Callable[..., Any]) -> str:
    """One name."""
    if not value.__doc__:
        raise LookupError(f"wakeful.{name} has no docstring")
    said = paragraphs(value.__doc__)
    if not isinstance(value, type):
        return joined(f"## {name}", shown(name, value), *said)
    rows = list(fields(value)) + list(members(value))
    constructor = "" if is_made_by_us(value) else shown(name, value)
    return joined(f"## {name}", constructor, *said, table(["", ""], rows) if rows else "")


def is_made_by_us(value: type) -> bool:
    """Whether users are given it, and never make one."""
    return issubclass(value, wakeful.Context | wakeful.SyncContext | tuple) or value.__name__ in (
        *("ClaimedJob", "JobId", "JobReport", "Queue", "RetryPolicy", "Settings", "Task", "Worker"),
    )


def fields(value: type) -> Iterator[tuple[str, str]]:
    """The fields of a plain value, in order."""
    if dataclasses.is_dataclass(value):
        names = [one.name for one in dataclasses.fields(value)]
    else:
        names = list(getattr(value, "_fields", ()))
    if names:
        yield "fields", ", ".join(map(code, names))


def members(value: type) -> Iterator[tuple[str, str]]:
    """Public methods and properties of ours, in the order in which they are written, bases first."""
    seen: dict[str, tuple[str, str]] = {}
    for kind in reversed(value.__mro__):
        if kind.__module__.partition(".")[0] != "wakeful":
            continue
        for name, member in vars(kind).items():
            if not name.startswith("_") and (row := described(name, member)) is not None:
                seen[name] = row
    yield from seen.values()


def described(name: str, member: object) -> tuple[str, str] | None:
    """A method's signature or a property's name, and its promise; None for what is neither."""
    match member:
        case property():
            return code(name), promise(member.fget.__doc__ if member.fget else "")
        case cached_property():
            return code(name), promise(member.func.__doc__)
        case _ if inspect.isfunction(member):
            return code(one_line(name, member)), promise(member.__doc__)
    return None


def shown(name: str, value: Callable[..., Any]) -> str:
    """A signature as a block of its own, an argument a line where they do not fit on one."""
    text = one_line(name, value)
    if len(text) > 110:
        inside, _, answer = text[len(name) + 1 :].rpartition(")")
        arguments = ",\n    ".join(str(one) for one in arguments_of(value)) if inside else ""
        text = f"{name}(\n    {arguments}\n){answer}"
    return f"```text\n{text}\n```"


def one_line(name: str, value: Callable[..., Any]) -> str:
    """Name, arguments and answer."""
    if isinstance(value, type) and value.__init__ is Exception.__init__:
        return f"{name}(message)"
    returns = inspect.signature(value).return_annotation
    answer = "" if isinstance(value, type) or returns is inspect.Signature.empty else f" -> {plain(returns)}"
    return f"{name}({', '.join(arguments_of(value))}){answer}"


def arguments_of(value: Callable[..., Any]) -> list[str]:
    """The arguments as they are written, without self."""
    written: list[str] = []
    for one in inspect.signature(value).parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not any(text.startswith("*") for text in written):
            written.append("*")
        written.append(argument(one))
    return written


def argument(one: inspect.Parameter) -> str:
    """One argument."""
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    kind = "" if one.annotation is one.empty else f": {plain(one.annotation)}"
    default = "" if one.default is one.empty else f" = {one.default!r}"
    return f"{stars}{one.name}{kind}{default}"


def plain(annotation: object) -> str:
    """An annotation as it stands in the source."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return text.removeprefix("Unpack[").removesuffix("]") if text.startswith("Unpack[") else text


def options_section(name: str, kind: type) -> str:
    """The keys of a TypedDict, with what is written below each."""
    [tree] = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    rows: list[list[str]] = []
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=key), annotation=annotation):
                rows.append([code(key), code(ast.unparse(annotation)), ""])
            case ast.Expr(value=ast.Constant(value=str(text))) if rows:
                rows[-1][2] = text
    return joined(f"## {name}", TAKES[name], table(["option", "type", ""], rows))
