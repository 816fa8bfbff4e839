"""A network of the workers' own: a namespace, joined to this machine by a cable that can be made to carry nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

# An address of hardware that nobody has: what is sent there is gone, and nobody is told.
NOWHERE = "02:00:00:00:00:99"


def no_network() -> str | None:
    """Why there can be none on this machine."""
    if os.geteuid() != 0:
        return "it takes root to make a network namespace"
    return None if shutil.which("ip") else "the program ip is missing (Debian's iproute2)"


class Network:
    """`ours` is this machine's address in it, `theirs` that of whoever is started behind `inside`."""

    def __init__(self) -> None:
        self.name = f"wakeful-{os.getpid()}"
        self._near, self._far = f"wk{os.getpid()}", "wk"
        # Two addresses of the block for links, told apart by the process: several runs may go on at once.
        net = f"169.254.{os.getpid() // 64 % 254 + 1}.{os.getpid() % 64 * 4}"
        prefix, _, last = net.rpartition(".")
        self.ours, self.theirs = f"{prefix}.{int(last) + 1}", f"{prefix}.{int(last) + 2}"

    @property
    def inside(self) -> tuple[str, ...]:
        """What to put before a command that is to live in it."""
        return ("ip", "netns", "exec", self.name)

    def join(self) -> None:
        """Lay the cable."""
        ip("netns", "add", self.name)
        ip("link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self.name)
        ip("addr", "add", f"{self.ours}/30", "dev", self._near)
        ip("link", "set", self._near, "up")
        ip("-n", self.name, "addr", "add", f"{self.theirs}/30", "dev", self._far)
        ip("-n", self.name, "link", "set", self._far, "up")
        ip("-n", self.name, "link", "set", "lo", "up")

    def part(self) -> None:
        """From here on nothing arrives, either way: no answer, no refusal, no end of a connection."""
        ip("neigh", "replace", self.theirs, "lladdr", NOWHERE, "dev", self._near, "nud", "permanent")
        ip("-n", self.name, "neigh", "replace", self.ours, "lladdr", NOWHERE, "dev", self._far, "nud", "permanent")

    def mend(self) -> None:
        """Everything arrives again; being whole already is fine."""
        ip("neigh", "flush", "to", self.theirs, "dev", self._near, "nud", "permanent")
        ip("-n", self.name, "neigh", "flush", "to", self.ours, "dev", self._far, "nud", "permanent")


def ip(*words: str) -> None:
    """Tell the kernel."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def network() -> Iterator[Network]:
    """One that is gone at the end, its cable with it."""
    made = Network()
    made.join()
    try:
        yield made
    finally:
        ip("netns", "del", made.name)
