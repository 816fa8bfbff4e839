"""A process that needs the embedded server: started, asked, ended or killed by the tests.

Run as a program it ensures the server, says what it got as a line of JSON, and stays until its input ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

SOURCE = Path(__file__).parents[2] / "src"
# Durability costs seconds here, and the machine does not lose power in the middle of a test.
FAST = {"fsync": "off"}
SOON_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Person:
    """Who runs a client: an interpreter and a program that this user can read, and where our code is."""

    python: str
    path: str
    program: Path
    uid: int | None = None
    libraries: str = ""

    def run(self, arguments: list[str], env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        groups: list[int] | None = None if self.uid is None else []
        return subprocess.Popen(
            [self.python, *arguments],
            env={**os.environ, "PYTHONPATH": self.path, **self._libraries(), **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            user=self.uid,
            group=self.uid,
            extra_groups=groups,
        )

    def _libraries(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": self.libraries} if self.libraries else {}


PATH = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
SELF = Person(sys.executable, PATH, Path(__file__))


class Client:
    """A user of the server in a process of its own."""

    def __init__(
        self,
        directory: Path,
        *,
        env: Mapping[str, str] | None = None,
        person: Person = SELF,
        program: Path | None = None,
        **options: object,
    ) -> None:
        wanted = json.dumps({"settings": FAST, "linger_seconds": 0, **options})
        self.process = person.run([str(program or person.program), str(directory), wanted], env)
        self._answer: dict[str, Any] | None = None

    def answer(self) -> dict[str, Any]:
        """What it says: the server's facts, or `error`."""
        if self._answer is None:
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(self.process.communicate()[1])
            self._answer = json.loads(line)
        return self._answer

    @property
    def dsn(self) -> str:
        return str(self.answer()["dsn"])

    @property
    def pid(self) -> int:
        """Of postgres, not of the client."""
        return int(self.answer()["pid"])

    @property
    def supervisor_pid(self) -> int:
        return int(self.answer()["supervisor_pid"])

    @property
    def error(self) -> str:
        """The sentence of its EmbeddedServerError."""
        return str(self.answer()["error"])

    def leave(self) -> None:
        """Let it end by itself."""
        self.process.communicate()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> Client:
        self.answer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


def wait_until(condition: Callable[[], object], seconds: float = SOON_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


def runs(pid: int) -> bool:
    """Whether a process of this number runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def bystander(uid: int | None = None) -> Iterator[int]:
    """The number of a process that has nothing to do with us, and must be alive at the end."""
    with subprocess.Popen(["sleep", "600"], cwd="/", user=uid) as process:
        try:
            yield process.pid
            assert process.poll() is None, "it was touched"
        finally:
            process.kill()


def main() -> None:
    from wakeful.database.embedded import ensure, status
    from wakeful.values.errors import EmbeddedServerError

    directory = Path(sys.argv[1])
    try:
        ensure(directory, **json.loads(sys.argv[2]))
    except EmbeddedServerError as error:
        answer: dict[str, Any] = {"error": str(error)}
    else:
        found = status(directory)
        assert found is not None
        answer = asdict(found)
    print(json.dumps(answer, default=str), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
