"""What a process that starts the server asks of its supervisor, and how the supervisor answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from wakeful.values.errors import EmbeddedServerError

RESERVED = frozenset({"port", "listen_addresses", "unix_socket_directories", "data_directory", "config_file"})


@dataclass(frozen=True, slots=True)
class Request:
    """`start_lock` is the descriptor that the supervisor inherits, and holds until the server is there."""

    binaries: str
    version: str
    start_lock: int
    pinned: bool
    linger_seconds: float
    settings: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Request:
        return Request(**json.loads(text))


def check_settings(settings: Mapping[str, str]) -> None:
    """Refuse names that no setting has, and those that are ours to choose."""
    for name in settings:
        if name in RESERVED or not name.replace("_", "").replace(".", "").isalnum():
            raise EmbeddedServerError(
                f"The server setting {name!r} cannot be given: leave it out, wakeful chooses it itself."
            )
