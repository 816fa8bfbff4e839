"""`app.queue`: claim and settle jobs from a loop of one's own, sync or async.

A verb is a script that says what to run and when to sleep; two players do it, one blocks and one awaits.
Who waits for work stands in the waiting room; a thread that listens sends one of them to look. A second
thread renews leases.
"""

from __future__ import annotations

from wakeful.queue.awaiting import AwaitingVerbs
from wakeful.queue.blocking import BlockingVerbs
from wakeful.queue.claimed import ClaimedJob

__all__ = ["ClaimedJob", "Queue"]


class Queue(BlockingVerbs, AwaitingVerbs):
    """Jobs by hand: for any number of threads and event loops; a forked child starts afresh.

    Every verb has two forms, `claim` and `aclaim`, that do the same.
    """
