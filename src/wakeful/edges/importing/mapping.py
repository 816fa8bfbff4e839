"""Where a mapping comes from: a TOML or JSON file, or a preset."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from wakeful.values.errors import ConfigError
from wakeful.values.legacy import LegacyTable, read_mapping

_PRESETS = files("wakeful.edges.importing") / "presets"


def presets() -> list[str]:
    """The names of the mappings that come along."""
    return sorted(one.name.removesuffix(".toml") for one in _PRESETS.iterdir() if one.name.endswith(".toml"))


def preset_text(name: str) -> str:
    """A preset as it is written, to be copied and changed."""
    return (_PRESETS / f"{name}.toml").read_text("utf-8")


def find_mapping(named: str, changes: dict[str, Any]) -> LegacyTable:
    """The mapping of a preset's name or a file's path; `changes` (table, source, …) come before what it says."""
    given = {**_document(named), **{name: value for name, value in changes.items() if value is not None}}
    return read_mapping(given, named)


def _document(named: str) -> dict[str, Any]:
    if named in presets():
        return tomllib.loads(preset_text(named))
    try:
        text = Path(named).read_text("utf-8")
        document = json.loads(text) if named.endswith(".json") else tomllib.loads(text)
    except OSError as error:
        known = ", ".join(presets())
        raise ConfigError(named, f"is no file that can be read ({error.strerror}), nor one of {known}.") from None
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        kind = "JSON" if named.endswith(".json") else "TOML"
        raise ConfigError(named, f"is not {kind}: {str(error).lower().rstrip('.')}.") from None
    if not isinstance(document, dict):
        raise ConfigError(named, "is not a table of names and values.")
    return document
