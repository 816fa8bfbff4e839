"""How PostgreSQL's programs are run: as the account, in a clean environment, never outliving us."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from wakeful.database.embedded.account import Account
from wakeful.database.embedded.binaries import Binaries
from wakeful.database.embedded.layout import Layout, full
from wakeful.values.errors import EmbeddedServerError

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Engine:
    """These programs, run as this account, for the server of this layout; their output goes to its log.

    Descriptors that are passed keep their numbers, so that `/proc/self/fd/N` means the same in the child.
    """

    layout: Layout
    account: Account
    binaries: Binaries

    def run(self, program: str, arguments: Sequence[str], pass_fds: tuple[int, ...], text: str = "") -> None:
        """Run a program to its end, killed if we are; its complaint becomes our error."""
        finished = subprocess.run(
            [self.binaries.folder / program, *arguments],
            input=text,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=pass_fds,
            cwd="/",
            env=_clean_environment(),
            preexec_fn=_dying_with_parent(signal.SIGKILL),
            **self.account.switch(),
        )
        with self.layout.log.open("a") as log:
            log.write(finished.stdout)
        # Single-user mode ends with 0 even when its command failed.
        if finished.returncode or "ERROR:" in finished.stdout:
            raise self.failure("The data directory could not be made", finished.stdout)

    def spawn(self, arguments: Sequence[str], pass_fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
        """Start `postgres` as our child, to be told to shut down in order if we are killed."""
        with self.layout.log.open("ab") as log:
            return subprocess.Popen(
                [self.binaries.folder / "postgres", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=pass_fds,
                cwd="/",
                env=_clean_environment(),
                # Fast shutdown: an orphan writes its checkpoint and goes, with no recovery at the next start.
                preexec_fn=_dying_with_parent(signal.SIGINT),
                **self.account.switch(),
            )

    def failure(self, what: str, output: str) -> EmbeddedServerError:
        """One sentence from what a program printed."""
        if "No space left on device" in output:
            return full(self.layout.directory)
        complaints: list[str] = re.findall(r"(?:FATAL|PANIC|ERROR|error):\s+(.+)", output)
        reason = complaints[0] if complaints else (output.strip().splitlines() or ["no reason given"])[-1]
        return self.layout.error(f"{what} ({reason.strip()}): see {self.layout.log}.")


def _dying_with_parent(number: signal.Signals) -> Callable[[], None]:
    """For preexec_fn, which runs after the change of user: that change would clear the signal."""
    return partial(_ask_for_signal, number, os.getpid())


def _ask_for_signal(number: signal.Signals, parent: int) -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _clean_environment() -> dict[str, str]:
    """Ours, without what would change the server's behaviour: PGOPTIONS and its kin, language, time zone."""
    unwanted = ("PG", "LC_", "LANG", "TZ")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return kept | {"LC_ALL": "C"}
