"""A home-made jobs table as its owner describes it: which column means what, and which word which state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final, Literal

from wakeful.values.errors import ConfigError
from wakeful.values.wording import shown

Take = Literal["delete", "mark", "leave"]

STATES: Final = ("waiting", "running", "completed", "dead")
FIELDS: Final = (
    *("state", "task", "payload", "queue", "priority", "run_at", "attempt", "max_attempts", "max_retries", "dedup_key"),
    *("tenant", "correlation_id", "parent", "created_by", "error", "error_code", "error_at", "result"),
    *("created_at", "started_at", "claimed_at", "finished_at"),
)
CONSTANTS: Final = ("task", "queue", "priority", "max_attempts", "tenant", "created_by")
_PARTS: Final = (
    *("table", "key", "source", "take", "timezone"),
    *("states", "columns", "constants", "payload", "tasks", "mark"),
)


@dataclass(frozen=True, slots=True)
class Column:
    """The names that a column may have: the first that the table has is it."""

    names: tuple[str, ...]
    needed: bool = True

    def among(self, present: set[str]) -> str | None:
        """The one that is there; None for none."""
        return next((name for name in self.names if name in present), None)


@dataclass(frozen=True, slots=True)
class LegacyTable:
    """A table and how it is read. `source` names it in the ledger; `take` says what becomes of a row that has moved."""

    table: tuple[str, ...]
    key: str
    source: str
    states: Mapping[str, tuple[str, ...]]
    columns: Mapping[str, Column]
    constants: Mapping[str, str | int] = field(default_factory=dict)
    payload: Mapping[str, str] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)
    mark: Mapping[str, str | int | bool | None] = field(default_factory=dict)
    take: Take = "delete"
    timezone: str = "UTC"

    def fitted(self, present: Iterable[str]) -> LegacyTable:
        """The same for a table with these columns; ConfigError for one that is named and not there."""
        there = set(present)
        columns = {name: Column((found,)) for name, one in self.columns.items() if (found := one.among(there))}
        needed = [self.key, *self.payload.values(), *self.mark]
        absent = [one.names[0] for name, one in self.columns.items() if one.needed and name not in columns]
        if missing := [name for name in [*needed, *absent] if name not in there]:
            table, name = ".".join(self.table), missing[0]
            raise ConfigError(message=f"The table {table} has no column {shown(name)}: {_known(name, there)}")
        return replace(self, columns=columns)


def read_mapping(given: Mapping[str, Any], where: str) -> LegacyTable:
    """What a mapping file says; ConfigError with one sentence for what it must not say. `where` names the file."""
    _only(given, _PARTS, where)
    table, key = _table(given.get("table"), where), _text(given.get("key", "id"), f"{where}: key")
    take = given.get("take", "delete")
    if take not in ("delete", "mark", "leave"):
        raise ConfigError(f"{where}: take", f"is {shown(take)}: give delete, mark or leave.")
    mark = _section(given, "mark", where)
    if (take == "mark") != bool(mark):
        raise ConfigError(f"{where}: mark", 'goes with take = "mark", and says what the row gets: status = "moved".')
    named, constants = _section(given, "columns", where), _section(given, "constants", where)
    _only(named, FIELDS, f"{where}: columns")
    _only(constants, CONSTANTS, f"{where}: constants")
    columns = {name: _column(one, f"{where}: columns.{name}") for name, one in named.items()}
    _complete(columns, given, where)
    return LegacyTable(
        table,
        key,
        _text(given.get("source", ".".join(table)), f"{where}: source"),
        _states(_section(given, "states", where), where),
        columns,
        {name: _constant(value, f"{where}: constants.{name}") for name, value in constants.items()},
        _texts(given, "payload", where),
        _texts(given, "tasks", where),
        mark,
        take,
        _text(given.get("timezone", "UTC"), f"{where}: timezone"),
    )


def _complete(columns: Mapping[str, Column], given: Mapping[str, Any], where: str) -> None:
    if "state" not in columns or not columns["state"].needed:
        raise ConfigError(f"{where}: columns", 'does not say which column tells the state: add state = "status".')
    if "payload" in columns and given.get("payload"):
        raise ConfigError(f"{where}: payload", "is a column and a table of columns: give one of them.")
    if "task" not in columns and "task" not in given.get("constants", {}):
        raise ConfigError(where, "does not say which task a row is for: give constants.task, or columns.task.")


def _states(given: Mapping[str, Any], where: str) -> dict[str, tuple[str, ...]]:
    _only(given, STATES, f"{where}: states")
    words = {name: _words(value, f"{where}: states.{name}") for name, value in given.items()}
    if not words.get("waiting"):
        raise ConfigError(f"{where}: states", 'does not say which rows wait: add waiting = ["pending"].')
    every = [word for listed in words.values() for word in listed]
    if twice := [word for word in every if every.count(word) > 1]:
        raise ConfigError(f"{where}: states", f"has {shown(twice[0])} twice: a word means one state.")
    return words


def _table(value: object, where: str) -> tuple[str, ...]:
    names = tuple(value.split(".")) if isinstance(value, str) else tuple(value) if isinstance(value, list) else ()
    if not 1 <= len(names) <= 2 or not all(isinstance(name, str) and name.strip() for name in names):
        raise ConfigError(f"{where}: table", f'is {shown(value)}: give its name, such as "public.jobs".')
    return names


def _section(given: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    value = given.get(name, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: {name}", f"is {shown(value)}: give a table of names and values.")
    return value


def _texts(given: Mapping[str, Any], name: str, where: str) -> dict[str, str]:
    return {key: _text(value, f"{where}: {name}.{key}") for key, value in _section(given, name, where).items()}


def _column(value: object, where: str) -> Column:
    """A name that must be there, or a list of which none need be."""
    return Column(_words(value, where), False) if isinstance(value, list) else Column((_text(value, where),))


def _words(value: object, where: str) -> tuple[str, ...]:
    if isinstance(value, list) and value:
        return tuple(_text(one, where) for one in value)
    raise ConfigError(where, f"is {shown(value)}: give a list of words.")


def _constant(value: object, where: str) -> str | int:
    if isinstance(value, str | int) and not isinstance(value, bool):
        return value
    raise ConfigError(where, f"is {shown(value)}: give a text or a whole number.")


def _text(value: object, where: str) -> str:
    if isinstance(value, str) and value.strip() and "\0" not in value:
        return value
    raise ConfigError(where, f"is {shown(value)}: give it a text.")


def _only(given: Iterable[str], allowed: Iterable[str], where: str) -> None:
    for name in given:
        if name not in allowed:
            raise ConfigError(f"{where}: {name}", f"is not known here: {_known(name, set(allowed))}")


def _known(name: str, names: set[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"there is {', '.join(sorted(names))}."
