"""Every example starts by the one command that its page names, on an embedded server, and ends when it is told to."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.acceptance.processes import children_of, lives, wait_until
from wakeful.database.embedded import stop

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
COMMANDS = dict(re.findall(r"^\| \[(\w+)\].*\| `python (.+)` \|$", (EXAMPLES / "README.md").read_text(), re.MULTILINE))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Empty, as a visitor's; the server that an example starts there is gone afterwards."""
    yield tmp_path
    stop(tmp_path / ".wakeful")


def command(name: str, *options: str) -> list[str]:
    """As it is documented, with what makes it quick, or leaves the choice of a port to the system."""
    words = [str(ROOT / word) if word.endswith(".py") else word for word in shlex.split(COMMANDS[name])]
    return [sys.executable, *words, *options]


def surroundings(folder: Path) -> dict[str, object]:
    return {"cwd": folder, "env": {**os.environ, "PYTHONPATH": str(ROOT), "PORT": "0"}, "text": True}


def test_every_example_has_a_command_and_its_own_page_names_it() -> None:
    assert set(COMMANDS) == {page.parent.name for page in EXAMPLES.glob("*/README.md")}
    for name, said in COMMANDS.items():
        assert f"\npython {said}" in (EXAMPLES / name / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("lipas", (), "One request, by its correlation id"),
        ("implicate", (), "'completed': 1, 'failed': 0"),
        pytest.param(
            *("duroxide", ("--idle-seconds", "0", "--rounds", "2", "--burst", "20"), "wakeful, 1 node "),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_story_comes_to_its_end(name: str, options: tuple[str, ...], told: str, folder: Path) -> None:
    done = subprocess.run(command(name, *options), **surroundings(folder), capture_output=True, timeout=110)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    assert told in done.stdout
    assert "Traceback" not in done.stderr


@contextmanager
def serving(name: str, *options: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """The example's server, once it listens."""
    log = folder / "log"
    with log.open("w") as out:
        process = subprocess.Popen(command(name, *options), **surroundings(folder), stdout=out, stderr=out)  # type: ignore[call-overload]
    try:
        found = wait_until(lambda: re.search(r"http://[\d.]+:\d+", log.read_text()), "the server")
        with httpx.Client(base_url=found[0], timeout=30) as client:
            yield process, client
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, log.read_text()
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()
        process.wait()


def test_litevault_enriches_what_its_api_is_given(folder: Path) -> None:
    with serving("litevault", "--port", "0", folder=folder) as (_, client):
        id = client.post("/items", json={"content": "some words"}).json()["id"]
        wait_until(lambda: client.get(f"/items/{id}").json()["status"] == "READY_TO_CONFIRM", "the enrichment")


def test_harmonyk_ticks_and_leaves_no_node_behind(folder: Path) -> None:
    with serving("harmonyk", folder=folder) as (process, client):
        client.post("/api/jobs", json={"type": "vault.index", "payload": {"document": "a", "text": "two words"}})
        ticked = client.post("/api/jobs/tick", headers={"authorization": "Bearer dev"}).json()
        assert (ticked["ok"], ticked["succeeded"]) == (True, 1)
        [node] = children_of(process.pid)
    assert not lives(node)
