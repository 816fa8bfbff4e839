"""What `requirements.lock` was made from, as one line at its head.

Comparing the line is how the lock is known to be current: it needs no network, and new releases of
dependencies do not make it stale. `python -m tests.tidy.lock` prints it for `make lock`.
"""

import hashlib
import json
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def head(pyproject: Path = ROOT / "pyproject.toml") -> str:
    """The first line of a lock that is current for this pyproject.toml."""
    tables = tomllib.loads(pyproject.read_text("utf-8"))
    inputs = [
        tables["project"]["requires-python"],
        tables["project"]["dependencies"],
        tables["project"]["optional-dependencies"],
        tables["dependency-groups"],
    ]
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    return f"# Made by `make lock` from the dependencies in pyproject.toml, sha256 {digest}"


if __name__ == "__main__":
    print(head())
