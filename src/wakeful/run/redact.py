"""Keeps what a task calls secret out of what is stored about its failures."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, quote_plus

MARK: Final = "[redacted]"


def secrets_in(payload: str, fields: Collection[str]) -> list[str]:
    """The texts by which the values of these fields, at any depth of the payload, may show up in an error.

    A name means every field of that name; `card.number` the one below that one.
    """
    if not fields:
        return []
    try:
        found = list(_values(json.loads(payload), (), [tuple(field.split(".")) for field in fields]))
    except (ValueError, RecursionError):
        return []
    texts = {text for value in found for text in _spellings(value)}
    # The longest first: one may be part of another.
    return sorted(texts, key=lambda text: (-len(text), text))


def without(text: str, secrets: Sequence[str]) -> str:
    """The text with a mark in place of each secret."""
    for secret in secrets:
        text = text.replace(secret, MARK)
    return text


def without_in(value: object, secrets: Sequence[str]) -> object:
    """The value with a mark in place of each secret in its texts, names and numbers, at any depth."""
    if not secrets:
        return value
    if isinstance(value, Mapping):
        return {without(str(name), secrets): without_in(item, secrets) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [without_in(item, secrets) for item in value]
    if value is None or isinstance(value, bool):
        return value
    shown = without(str(value), secrets)
    return value if shown == str(value) else shown


def _values(value: Any, path: tuple[str, ...], fields: Sequence[tuple[str, ...]]) -> Iterator[object]:
    if path and any(path[-len(field) :] == field for field in fields):
        yield from _leaves(value)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _values(item, (*path, name), fields)
    elif isinstance(value, list):
        for item in value:
            yield from _values(item, path, fields)


def _leaves(value: Any) -> Iterator[object]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    elif value is not None and not isinstance(value, bool):
        yield value


def _spellings(value: object) -> Iterator[str]:
    text = str(value)
    if not text.strip():
        return
    yield text
    # As a traceback, a JSON body and a URL would show it.
    yield repr(value)[1:-1] if isinstance(value, str) else repr(value)
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield quote(text, safe="")
    yield quote_plus(text)
