"""What observers of enqueuing give: a context around it, and what its jobs are to carry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

Sending = Callable[[str, str | None, int], AbstractContextManager[Mapping[str, str]]]
"""Called with a task, its queue (None: the database decides) and a number of jobs. The mapping joins their metadata."""
