"""`wakeful dev APP`: a server, a schema and a worker that follows every change."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.processes import (
    Running,
    assert_sentence,
    children_of,
    lives,
    run,
    running,
    shop_in,
    wait_until,
)
from tests.sessions import query, session
from tests.verbs import enqueue
from wakeful.database import embedded
from wakeful.testing import Database


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shop_in(tmp_path)


@pytest.fixture
def embedded_folder(folder: Path) -> Iterator[Path]:
    """Its embedded server is gone at the end."""
    yield folder
    embedded.reset(folder / ".wakeful")


def result_of_quick(dsn: str, number: int) -> object:
    with session(dsn) as db:
        made = enqueue(db, "quick", {"number": number})

        def result() -> list[object] | None:
            found = query(db, "select result from wakeful.jobs where id = %s and state = 'completed'", made)
            return [row["result"] for row in found] or None

        return wait_until(result)[0]


def edit(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def end(dev: Running) -> None:
    pids = children_of(dev.pid)
    dev.send(signal.SIGINT)
    assert dev.ended() == 0
    assert not any(map(lives, pids))


def test_it_starts_all_that_is_needed_and_follows_every_change(embedded_folder: Path) -> None:
    shop = embedded_folder / "shop.py"
    with running("dev", "shop:app", folder=embedded_folder) as dev:
        dev.wait_for("worker_started")
        assert "PostgreSQL (embedded, in .wakeful), schema" in dev.text
        server = embedded.status(embedded_folder / ".wakeful")
        assert server is not None
        assert result_of_quick(server.dsn, 3) == 3
        edit(shop, "return number", "return number * 100")
        dev.wait_for("worker_started", 2)
        assert "shop.py changed: starting again." in dev.text
        assert result_of_quick(server.dsn, 3) == 300
        edit(shop, "* 100", "* (")
        dev.wait_for_line("waiting for a change")
        assert "wakeful: Module 'shop' cannot be imported: SyntaxError: " in dev.text
        assert "(shop.py:" in dev.text
        edit(shop, "* (", "* 7")
        dev.wait_for("worker_started", 3)
        assert result_of_quick(server.dsn, 3) == 21
        end(dev)


def test_a_given_database_is_migrated_and_modules_elsewhere_are_watched(
    blank_database: Database, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "prices.py").write_text("FACTOR = 2\n")
    edit(folder / "shop.py", "return number", "from prices import FACTOR; return number * FACTOR")
    edit(folder / "shop.py", "import time\n", "import time\nimport prices\n")
    path = os.pathsep.join(filter(None, [str(elsewhere), os.environ.get("PYTHONPATH")]))
    with running("dev", "shop:app", folder=folder, dsn=blank_database.dsn, PYTHONPATH=path) as dev:
        dev.wait_for("worker_started")
        assert ", schema 1 just made." in dev.text
        assert result_of_quick(blank_database.dsn, 3) == 6
        (elsewhere / "prices.py").write_text("FACTOR = 50\n")
        dev.wait_for("worker_started", 2)
        assert "prices.py changed: starting again." in dev.text
        assert result_of_quick(blank_database.dsn, 3) == 150
        end(dev)


def test_wrong_usage_is_told_in_a_sentence(folder: Path) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    assert_sentence(run("dev", folder=folder, dsn=nowhere), 2, "Which app? Say `module:attribute`")
    assert_sentence(run("dev", "shop", folder=folder, dsn=nowhere), 2, "App 'shop' is not complete")
    assert_sentence(run("dev", "shop:app", folder=folder, dsn=nowhere), 1, "does not answer. Start it")
