"""What the schema files say of themselves, read from their text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import wakeful

FOLDER = Path(wakeful.__file__).parent / "sql" / "schema"

_FUNCTION = re.compile(
    r"(?P<comment>(?:^--[^\n]*\n)*)^create function wakeful\.(?P<name>\w+)\((?P<arguments>.*?)\)"
    r"\s+returns\s+(?P<returns>.*?)\s+language ",
    re.MULTILINE | re.DOTALL,
)
_VIEW = re.compile(
    r"(?P<comment>(?:^--[^\n]*\n)*)^create view wakeful\.(?P<name>\w+) as\nselect (?P<body>.*?);$",
    re.MULTILINE | re.DOTALL,
)
_GRANT = re.compile(r"\('(?P<to>\w+)', 'execute', 'function', array\[(?P<names>.*?)\]\)", re.DOTALL)
_ROLE_SET = re.compile(r"when '(?P<to>\w+)' then array\[(?P<roles>.*?)\]")
_DOMAIN = re.compile(r"^create domain wakeful\.(?P<name>\w+) as \w+(?P<rules>.*?);$", re.MULTILINE | re.DOTALL)
_RULE = re.compile(r"constraint (\w+) check")
_TAG = re.compile(r"^(Promise|Locks|Parameters|Channels|Format)\b.*?: ")


@dataclass(frozen=True, slots=True)
class Function:
    """A function as its file declares it."""

    name: str
    arguments: tuple[str, ...]
    returns: str
    comment: str


@dataclass(frozen=True, slots=True)
class View:
    """A view and its columns."""

    name: str
    columns: tuple[str, ...]
    comment: str


@dataclass(frozen=True, slots=True)
class Topic:
    """A schema file: what its header says, and its functions."""

    title: str
    remarks: tuple[str, ...]
    functions: tuple[Function, ...]


@cache
def topics() -> tuple[Topic, ...]:
    """Every schema file, in the order in which they are loaded."""
    return tuple(topic(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.sql")))


def topic(text: str) -> Topic:
    """One file. Its header's first words are the title, the rest are remarks."""
    header = re.match(r"(?:--.*\n)+", text)
    assert header, "a schema file begins with its header"
    opening, *remarks = paragraphs(header[0])
    title, rest = re.fullmatch(r"(.*?)(?:[:.] (.*)|\.?)", opening).groups("")  # type: ignore[union-attr]
    found = tuple(functions(text, header.end()))
    return Topic(title, tuple(part for part in (rest[:1].upper() + rest[1:], *remarks) if part), found)


def paragraphs(header: str) -> list[str]:
    """The header's parts: each tag (Promise, Locks, …) begins one."""
    parts: list[str] = []
    for line in lines_of(header):
        if not parts or _TAG.match(line) or not line:
            parts.append(line)
        else:
            parts[-1] = f"{parts[-1]} {line}".strip()
    return [_TAG.sub(lambda tag: f"*{tag[0].strip()}* ", part) for part in parts if part]


def lines_of(comment: str) -> list[str]:
    """A comment's lines without their marks."""
    return [line.removeprefix("--").strip() for line in comment.splitlines()]


def functions(text: str, header_end: int) -> Iterator[Function]:
    """The functions of a file; a comment that is the file's header says nothing of the first one alone."""
    for found in _FUNCTION.finditer(text):
        own = "" if found.start() < header_end else " ".join(lines_of(found["comment"]))
        arguments = tuple(" ".join(one.split()) for one in split(found["arguments"]))
        yield Function(found["name"], arguments, " ".join(found["returns"].split()), own)


def views() -> list[View]:
    """Every view, in the order of their file."""
    text = (FOLDER / "80_views.sql").read_text("utf-8")
    header = re.match(r"(?:--.*\n)+", text)
    assert header
    return [
        View(
            found["name"],
            tuple(re.split(r" as |\.", column)[-1].strip() for column in selected(found["body"])),
            "" if found.start() < header.end() else " ".join(lines_of(found["comment"])),
        )
        for found in _VIEW.finditer(text)
    ]


def selected(body: str) -> list[str]:
    """The columns of a select, each as it is written: what stands before the `from` outside of all brackets."""
    columns = []
    for part in split(body):
        flat = part
        while flat != (flat := re.sub(r"\([^()]*\)", "", flat)):
            pass
        column, *rest = re.split(r"\sfrom\s", flat)
        columns.append(column)
        if rest:
            return columns
    raise LookupError("a select without from")


def split(text: str) -> list[str]:
    """What stands between commas, those inside brackets left alone."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


@cache
def role_sets() -> dict[str, tuple[str, ...]]:
    """The short names of the grants, and the roles that they stand for."""
    return {found["to"]: quoted(found["roles"]) for found in _ROLE_SET.finditer(_grants())}


def grants() -> dict[str, tuple[str, ...]]:
    """Which roles may call a function; one that is not here is internal."""
    return {name: role_sets()[found["to"]] for found in _GRANT.finditer(_grants()) for name in quoted(found["names"])}


def sizes() -> list[tuple[str, str]]:
    """What the domains demand of their values."""
    text = (FOLDER / "10_job.sql").read_text("utf-8")
    return [
        (found["name"], rule.replace("_", " "))
        for found in _DOMAIN.finditer(text)
        for rule in _RULE.findall(found["rules"])
    ]


def quoted(text: str) -> tuple[str, ...]:
    """The texts between quotes."""
    return tuple(re.findall(r"'(\w+)'", text))


def _grants() -> str:
    return (FOLDER / "90_grants.sql").read_text("utf-8")
