"""For test suites: the fixtures `database` and `sandbox`, and what they give.

The fixtures come with the package: pytest finds them by itself.
"""

from __future__ import annotations

from wakeful.edges.testing.databases import Database, Databases
from wakeful.edges.testing.sandbox import Sandbox, sandboxed

__all__ = ["Database", "Databases", "Sandbox", "sandboxed"]
