"""docs/reference/python.md, from what `import wakeful` exports."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import wakeful
import wakeful.testing
import wakeful.web
from docs.generators.markdown import anchor, code, joined, paragraphs, promise, table
from wakeful.produce.options import EnqueueOptions
from wakeful.schedule import ScheduleOptions
from wakeful.task import TaskOptions
from wakeful.values.errors import WakefulError

INTRO = """
# Python

What `import wakeful` exports. Errors have [a page of their own](errors.md). A verb that is awaited has the name of the
one that blocks with an `a` in front: `enqueue` and `aenqueue` do the same.
"""
# What tasks and jobs are told, where `**options` stands in a signature.
OPTIONS = {"TaskOptions": TaskOptions, "EnqueueOptions": EnqueueOptions, "ScheduleOptions": ScheduleOptions}
# What users make themselves; the rest they are given.
MADE_BY_USERS = {"Wakeful", "Cancel", "Dead", "Retry", "Snooze", "Exponential", "Fixed", "Never", "Steps"}
# What our own parts ask of each other.
OURS = {"producer", "template", "text_of", "run_payload", "position", "declare", "declarations"}
TAKES = {
    "TaskOptions": "What `@app.task(…)` takes.",
    "EnqueueOptions": "What `using` and every `enqueue` take.",
    "ScheduleOptions": "What a schedule says of its jobs; the rest is the task's own.",
}


@dataclass(frozen=True, slots=True)
class Member:
    """A method or property: its name, how it is called, what it promises."""

    name: str
    written: str
    text: str


def page() -> str:
    """The page."""
    exported = [name for name in sorted(wakeful.__all__) if not name.startswith("_")]
    names = [name for name in exported if is_documented(getattr(wakeful, name))]
    overview = table(
        ["name", ""], [(f"[{code(name)}]({anchor(name)})", promise(getattr(wakeful, name).__doc__)) for name in names]
    )
    return joined(
        INTRO,
        overview,
        *[section(name, getattr(wakeful, name)) for name in names],
        *[options_section(name, kind) for name, kind in OPTIONS.items()],
        *[module_section(module) for module in (wakeful.testing, wakeful.web)],
    )


def module_section(module: ModuleType) -> str:
    """A module that is imported by its own name: what it exports, a class with its verbs."""
    rows = []
    for name in module.__all__:
        value = getattr(module, name)
        written = name if isinstance(value, type) else one_line(name, value)
        rows.append((code(written), promise(value.__doc__)))
        if isinstance(value, type):
            rows += [(code(f"{name}.{member.written}"), member.text) for member in members(value) if member.text]
    return joined(f"## {module.__name__}", *paragraphs(module.__doc__), table(["", ""], rows))


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
    told = members(value)
    plain_names = dict.fromkeys(
        [*fields(value), *(one.name for one in told if not one.text and one.written == one.name)]
    )
    facts = f"Fields: {', '.join(map(code, plain_names))}." if plain_names else ""
    rows = [(code(member.written), member.text) for member in told if member.text]
    constructor = shown(name, value) if name in MADE_BY_USERS else ""
    return joined(f"## {name}", constructor, *said, facts, table(["", ""], rows) if rows else "")


def fields(value: type) -> list[str]:
    """The fields of a plain value, in order."""
    if dataclasses.is_dataclass(value):
        return [one.name for one in dataclasses.fields(value)]
    return list(getattr(value, "_fields", ()))


def members(value: type) -> list[Member]:
    """Public methods and properties of ours, in the order in which they are written, bases first."""
    found: dict[str, Member] = {}
    for kind in reversed(value.__mro__):
        if kind.__module__.partition(".")[0] == "wakeful":
            for name, member in vars(kind).items():
                if not name.startswith("_") and name not in OURS and (made := described(name, member)) is not None:
                    found[name] = made
    return [paired(one, found) for one in found.values() if not is_twin(one, found)]


def described(name: str, member: object) -> Member | None:
    """A method's signature or a property's name, and its promise; None for what is neither."""
    match member:
        case property():
            return Member(name, name, promise(member.fget.__doc__ if member.fget else ""))
        case cached_property():
            return Member(name, name, promise(member.func.__doc__))
        case _ if inspect.ismemberdescriptor(member):
            return Member(name, name, "")
        case _ if inspect.isfunction(member) and member.__name__ != name:
            return Member(name, f"{name}(…)", f"Another name for `{member.__name__}`.")
        case _ if inspect.isfunction(member):
            wait = "await " if inspect.iscoroutinefunction(member) else ""
            return Member(name, wait + one_line(name, member), promise(member.__doc__))
    return None


def is_twin(member: Member, others: Mapping[str, Member]) -> bool:
    """Whether it is the awaited form of another verb, and is told there."""
    return member.name.startswith("a") and member.name[1:] in others


def paired(member: Member, others: Mapping[str, Member]) -> Member:
    """The verb with its awaited form named beside it."""
    twin = others.get(f"a{member.name}")
    return member if twin is None else Member(member.name, member.written, f"{member.text} Awaited: `{twin.name}`.")


def shown(name: str, value: Callable[..., Any]) -> str:
    """A signature as a block of its own, an argument a line where they do not fit on one."""
    text = one_line(name, value)
    if len(text) > 110:
        listed, answer = ",\n    ".join(arguments_of(value)), text.rpartition(")")[2]
        text = f"{name}(\n    {listed},\n){answer}"
    return f"```text\n{text}\n```"


def one_line(name: str, value: Callable[..., Any]) -> str:
    """Name, arguments and answer."""
    if isinstance(value, type) and "__init__" not in vars(value) and issubclass(value, Exception):
        return f"{name}(message)"
    returns = inspect.signature(value).return_annotation
    answer = "" if isinstance(value, type) or returns is inspect.Signature.empty else plain(returns)
    # What yields is a context manager here, and its docstring says of what.
    shown_answer = f" -> {answer}" if answer and "Iterator" not in answer else ""
    return f"{name}({', '.join(arguments_of(value))}){shown_answer}"


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
    """One argument. A default that is no literal has no text that would be the same tomorrow."""
    stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
    kind = "" if one.annotation is one.empty else f": {plain(one.annotation)}"
    literal = isinstance(one.default, str | int | float | None)
    default = "" if one.default is one.empty else f" = {repr(one.default) if literal else '…'}"
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
