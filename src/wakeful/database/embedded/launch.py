"""Start the supervisor as a process of its own, and wait for its answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import wakeful
from wakeful.database.embedded.layout import Layout, keep_log_small
from wakeful.database.embedded.request import Request
from wakeful.database.embedded.state import SUPERVISOR, ServerState, running_state


def launch(layout: Layout, request: Request) -> ServerState:
    """Returns when the server takes connections. The supervisor inherits the caller's start lock."""
    keep_log_small(layout.log)
    problem = _run_supervisor(layout, request)
    state = running_state(layout)
    if state is None:
        raise layout.error(problem or f"The server's supervisor ended without a word: see {layout.log}.")
    return state


def _run_supervisor(layout: Layout, request: Request) -> str:
    """What the supervisor says went wrong; empty if nothing did."""
    # The standard library is all it needs: no site-packages, and nothing that lies in the working directory.
    command = [sys.executable, "-S", "-P", "-m", SUPERVISOR, str(layout.directory), request.to_json()]
    with (
        layout.log.open("ab") as log,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd="/",
            env=os.environ | {"PYTHONPATH": _source_folder()},
            pass_fds=(request.start_lock,),
            start_new_session=True,
        ) as starter,
    ):
        assert starter.stdout is not None
        return os.fsdecode(starter.stdout.read())


def _source_folder() -> str:
    return str(Path(next(iter(wakeful.__path__))).parent)
