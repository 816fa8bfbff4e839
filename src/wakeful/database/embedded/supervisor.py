"""The parent of `postgres`: a detached process that starts it, waits while anybody needs it, and ends it.

It never polls. Its main thread sleeps until a signal: SIGTERM (somebody wants the server stopped), SIGCHLD
(postgres has gone), or SIGUSR1 from a second thread, which sleeps in the kernel's queue for the users' lock.
If the supervisor itself is killed, the kernel tells postgres to shut down.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from wakeful.database.embedded.account import choose_account
from wakeful.database.embedded.binaries import Binaries
from wakeful.database.embedded.cluster import open_cluster
from wakeful.database.embedded.copies import binaries_for
from wakeful.database.embedded.engine import Engine
from wakeful.database.embedded.layout import Layout, unwritable
from wakeful.database.embedded.locks import open_lock, try_hold
from wakeful.database.embedded.postmaster import Postmaster, end_postmaster, start_postmaster
from wakeful.database.embedded.process import Process, identify
from wakeful.database.embedded.request import Request
from wakeful.database.embedded.state import ServerState, read_state, write_state
from wakeful.values.errors import EmbeddedServerError

WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1}
SECONDS_UNTIL_NEXT_TRY = 1.0


def main() -> None:
    """Start the server, tell the starter, watch over it, end it."""
    layout, request = Layout(Path(sys.argv[1])), Request.from_json(sys.argv[2])
    # The starter waits for its own child only, so that the server is nobody's child but init's.
    if os.fork():
        os._exit(0)
    try:
        postmaster = _start(layout, request)
    except OSError as error:
        _answer(str(unwritable(layout.directory, error)))
    except EmbeddedServerError as error:
        _answer(str(error))
    else:
        _answer("")
        os.close(request.start_lock)
        _watch(layout, request, postmaster)
        end_postmaster(postmaster.child)
        with suppress(OSError):
            postmaster.socket_directory.rmdir()


def _start(layout: Layout, request: Request) -> Postmaster:
    account = choose_account(layout.cluster)
    binaries = binaries_for(account, Binaries(Path(request.binaries), request.version))
    engine = Engine(layout, account, binaries)
    cluster = open_cluster(engine, request.settings)
    last = read_state(layout)
    postmaster = start_postmaster(engine, cluster, last.port if last else None, request.settings)
    # From here on signals wait until `watch` asks for them.
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    write_state(
        layout,
        ServerState(
            supervisor=_own(os.getpid()),
            postgres=_own(postmaster.child.pid),
            port=postmaster.port,
            socket_directory=str(postmaster.socket_directory),
            version=binaries.version,
            binaries=str(binaries.folder),
            account=account.name,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            pinned=request.pinned,
        ),
    )
    return postmaster


def _own(pid: int) -> Process:
    process = identify(pid)
    if process is None:
        raise EmbeddedServerError("PostgreSQL ended as soon as it had started: start it again.")
    return process


def _answer(problem: str) -> None:
    """Tell the starter, which reads until we close the pipe; it may have gone."""
    with suppress(BrokenPipeError):
        os.write(1, os.fsencode(problem))
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _watch(layout: Layout, request: Request, postmaster: Postmaster) -> None:
    """Return when the server is to end: asked to, gone already, or needed by nobody."""
    _await_last_user(layout)
    timeout: float | None = None
    while postmaster.child.poll() is None:
        event = signal.sigwaitinfo(WATCHED) if timeout is None else signal.sigtimedwait(WATCHED, timeout)
        if event is None:
            timeout = _try_to_retire(layout)
            if timeout == 0:
                return
        elif event.si_signo == signal.SIGUSR1:
            timeout = request.linger_seconds
        elif event.si_signo in (signal.SIGTERM, signal.SIGINT):
            return


def _await_last_user(layout: Layout) -> None:
    """Send SIGUSR1 to the main thread when no process holds the users' lock."""

    def wait() -> None:
        users = open_lock(layout.users_lock)
        fcntl.flock(users, fcntl.LOCK_EX)
        os.close(users)
        os.kill(os.getpid(), signal.SIGUSR1)

    threading.Thread(target=wait, daemon=True).start()


def _try_to_retire(layout: Layout) -> float | None:
    """0 if the server may end, and nobody can join it any more; else the seconds until the next try.

    Both locks are then held until this process ends: whoever comes meanwhile waits, and starts the next one.
    """
    start_lock, users = open_lock(layout.start_lock), open_lock(layout.users_lock)
    if not try_hold(start_lock):
        outcome: float | None = SECONDS_UNTIL_NEXT_TRY
    elif (state := read_state(layout)) and state.pinned:
        outcome = None
    elif try_hold(users):
        return 0
    else:
        _await_last_user(layout)
        outcome = None
    os.close(start_lock)
    os.close(users)
    return outcome


if __name__ == "__main__":
    main()
