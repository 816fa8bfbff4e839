"""A PostgreSQL of one's own: started on first use, shared by all who need it, gone with the last of them.

Blocking; async callers use `asyncio.to_thread`. Linux only, because parent-death signals and pidfds are.
"""

from wakeful.database.embedded.layout import locate
from wakeful.database.embedded.server import EmbeddedServer, ensure, release, reset, stop
from wakeful.database.embedded.status import ServerStatus, status

__all__ = ["EmbeddedServer", "ServerStatus", "ensure", "locate", "release", "reset", "status", "stop"]
