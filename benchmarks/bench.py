"""What measurements stand on: the server, the systems' environments, and one fresh site for each measurement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from benchmarks.driver.load import Load
from benchmarks.driver.probe import Probe, new_probe
from benchmarks.environments.installed import Installed
from benchmarks.environments.node import make_node
from benchmarks.environments.python import make_python
from benchmarks.environments.redis import flush, make_redis, running_redis
from benchmarks.processes import Group
from benchmarks.server import Connection, Server
from benchmarks.sizes import Sizes
from benchmarks.system import Node, Own, Python, System

ROOT = Path(__file__).parents[1]
SECONDS_FOR_A_CALL = 300


class Failed(Exception):
    """A system did not do what it was asked to; the message says what."""


class Bench:
    """One run's server, sizes and environments. Files are kept below `folder`."""

    def __init__(self, server: Server, folder: Path, sizes: Sizes, stack: ExitStack) -> None:
        self.server = server
        self.folder = folder
        self.sizes = sizes
        self._stack = stack
        self._homes: dict[str, Installed] = {}
        self._redis: str | None = None
        self._sites = 0

    def install(self, system: System) -> Installed:
        """The system's environment, made if it is not there; NotInstalled if it cannot be."""
        if system.name not in self._homes:
            peers = self.folder.parent / "peers"
            if system.store == "redis":
                make_redis(peers / "redis")
            self._homes[system.name] = _home(system, peers / system.name)
        return self._homes[system.name]

    @contextmanager
    def site(self, system: System) -> Iterator[Site]:
        """A fresh database with the system's schema (or an empty Redis), gone at the end."""
        self._sites += 1
        name = f"bench_{system.name.replace('-', '_')}_{self._sites}"
        with new_probe(self.folder / f"{name}.probe") as probe:
            if system.store == "redis":
                yield Site(self, system, name, self._empty_redis(), probe)
                return
            template = f"template_{system.name.replace('-', '_')}"
            if not self.server.exists(template):
                self._build(system, template, probe)
            self.server.create(name, template)
            try:
                yield Site(self, system, name, self.server.dsn(name), probe)
            finally:
                self.server.drop(name)

    def _build(self, system: System, template: str, probe: Probe) -> None:
        building = f"{template}_building"
        self.server.create(building)
        Site(self, system, building, self.server.dsn(building), probe).call("setup")
        self.server.drop(template)
        self.server.admin.execute(f"alter database {building} rename to {template}".encode())

    def _empty_redis(self) -> str:
        if self._redis is None:
            self._redis = self._stack.enter_context(running_redis(self.folder.parent / "peers" / "redis"))
        flush(self._redis)
        return self._redis


class Site:
    """One system in one fresh database."""

    def __init__(self, bench: Bench, system: System, database: str, dsn: str, probe: Probe) -> None:
        self.bench = bench
        self.system = system
        self.database = database
        self.dsn = dsn
        self.probe = probe
        self.sizes = bench.sizes
        self.server = bench.server

    @property
    def jobs(self) -> int:
        """How many jobs a drain has."""
        return int(self.system.jobs * self.sizes.drain_share)

    def call(self, verb: str, *, system: System | None = None, **arguments: Any) -> dict[str, Any]:
        """Run one verb of the system (or of another, beside it) in a process of its own; its answer."""
        system = system or self.system
        command = self._command(system, verb, arguments)
        with self._log(system).open("ab") as log:
            done = _run(command, self._environment(system), log, verb)
        if done.returncode:
            raise Failed(f"{verb} ended with {done.returncode}: see {log.name}")
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    @contextmanager
    def workers(self, load: Load, processes: int = 1, system: System | None = None) -> Iterator[list[Group]]:
        """Worker processes of the system (or of another, beside it) while the block runs."""
        system = system or self.system
        command = self._command(system, "worker", load.to_arguments())
        environment = self._environment(system) | dict(load.environment)
        groups: list[Group] = []
        try:
            for _ in range(processes):
                groups.append(Group(command, environment, self._log(system)))
            yield groups
        finally:
            for group in groups:
                group.stop()

    def connect(self) -> Connection:
        """A connection of the harness's own."""
        return self.server.connect(self.database)

    def settle(self) -> None:
        """Level the ground after loading."""
        if self.system.store == "postgres":
            self.server.settle(self.database)

    def _command(self, system: System, verb: str, arguments: Mapping[str, Any]) -> list[str]:
        home = self.bench.install(system)
        return [*home.command, verb, json.dumps(arguments)]

    def _environment(self, system: System) -> dict[str, str]:
        programs = os.pathsep.join([str(self.server.programs), os.environ["PATH"]])
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
        return {
            **kept,
            **self.bench.install(system).environment,
            **dict(system.environment),
            "PATH": programs,
            "PYTHONPATH": str(ROOT),
            "BENCH_DSN": self.dsn,
            "BENCH_PROBE": str(self.probe.path),
        }

    def _log(self, system: System) -> Path:
        return self.bench.folder / f"{system.name}.log"


def _run(
    command: Sequence[str], environment: Mapping[str, str], log: IO[bytes], verb: str
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            timeout=SECONDS_FOR_A_CALL,
            text=True,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{verb} took longer than {SECONDS_FOR_A_CALL} s: see {log.name}") from None


def _home(system: System, folder: Path) -> Installed:
    match system.home:
        case Own():
            return Installed((sys.executable, "-P", "-m", system.module), {}, {})
        case Python() as home:
            made = make_python(home, folder)
            return replace(made, command=(*made.command, system.module))
        case Node() as home:
            made = make_node(home, folder, Path(__file__).parent / "peers" / home.script)
            return replace(made, command=(*made.command, str(folder / home.script)))
