"""Settings: where they come from, in which order, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from wakeful.config import Lane, Settings, load
from wakeful.values.errors import ConfigError


def read(folder: Path, flags: dict[str, Any] | None = None, **environ: str) -> Settings:
    return load(flags, environ=environ, directory=folder)


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    assert read(tmp_path) == Settings()


def test_a_flag_comes_before_a_variable_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "wakeful.toml").write_text('[database]\npool_size = 3\n[worker]\nlease = "40s"\n')
    assert read(tmp_path).database.pool_size == 3
    assert read(tmp_path, WAKEFUL_POOL_SIZE="4").database.pool_size == 4
    assert read(tmp_path, {"pool_size": 5}, WAKEFUL_POOL_SIZE="4").database.pool_size == 5
    assert read(tmp_path, {"pool_size": None}, WAKEFUL_POOL_SIZE=" ").database.pool_size == 3
    assert read(tmp_path).worker.lease == timedelta(seconds=40)


def test_the_nearest_file_above_counts(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "wakeful.toml").write_text('app = "far:app"')
    assert read(deep).app == "far:app"
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.ruff]\nline-length = 1")
    assert read(deep).app == "far:app"
    (tmp_path / "a" / "pyproject.toml").write_text('[tool.wakeful]\napp = "near:app"')
    assert read(deep).app == "near:app"
    (tmp_path / "a" / "wakeful.toml").write_text('app = "nearest:app"')
    assert read(deep).app == "nearest:app"


def test_the_hosts_database_url_is_taken_if_nobody_says_otherwise(tmp_path: Path) -> None:
    assert read(tmp_path, DATABASE_URL="postgresql://host").database.dsn == "postgresql://host"
    assert read(tmp_path, DATABASE_URL="h", WAKEFUL_DSN="w").database.dsn == "w"
    assert read(tmp_path, DATABASE_URL="h").database.listen_dsn is None
    (tmp_path / "wakeful.toml").write_text('[database]\ndsn = "file"')
    assert read(tmp_path, DATABASE_URL="h").database.dsn == "file"


@pytest.mark.parametrize("empty", ["", "  \n"])
def test_an_empty_address_is_no_wish_for_the_embedded_server(tmp_path: Path, empty: str) -> None:
    with pytest.raises(ConfigError, match=r"WAKEFUL_DSN is empty: .* or leave it out to use the embedded server"):
        read(tmp_path, WAKEFUL_DSN=empty, DATABASE_URL="h")
    with pytest.raises(ConfigError, match=r"WAKEFUL_LISTEN_DSN is empty: .* or leave it out to listen where the DSN"):
        read(tmp_path, WAKEFUL_LISTEN_DSN=empty)
    with pytest.raises(ConfigError, match="dsn is empty"):
        read(tmp_path, {"dsn": empty}, WAKEFUL_DSN="w")
    assert read(tmp_path, DATABASE_URL=empty).database.dsn is None


def test_values_are_read_as_people_write_them(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        WAKEFUL_NOTIFY="OFF",
        WAKEFUL_ENQUEUE_OFF="mail.send, mail.list,",
        WAKEFUL_QUEUES="fast:3, general",
        WAKEFUL_POLL_INTERVAL="1m30s",
        WAKEFUL_RETENTION="30 days",
    )
    assert settings.database.notify is False
    assert settings.produce.enqueue_off == {"mail.send", "mail.list"}
    assert settings.worker.queues == (Lane("fast", 3), Lane("general"))
    assert settings.worker.poll_interval == timedelta(seconds=90)
    assert settings.worker.retention == timedelta(days=30)
    (tmp_path / "wakeful.toml").write_text(
        '[database]\nnotify = false\n[worker]\nqueues = ["fast:3", "general"]\npoll_interval = 90\n'
    )
    assert read(tmp_path).worker.queues == settings.worker.queues
    assert read(tmp_path).worker.poll_interval == timedelta(seconds=90)


WRONG = [
    ("WAKEFUL_POOL_SIZE", "many"),
    ("WAKEFUL_POOL_SIZE", "1"),
    ("WAKEFUL_NOTIFY", "maybe"),
    ("WAKEFUL_LEASE", "-5"),
    ("WAKEFUL_LEASE", "0"),
    ("WAKEFUL_QUEUES", "fast:none"),
    ("WAKEFUL_QUEUES", "fast:1,fast"),
    ("WAKEFUL_ENQUEUE_OFF", "a b"),
]


@pytest.mark.parametrize(("variable", "value"), WRONG)
def test_a_wrong_variable_is_refused_by_name(tmp_path: Path, variable: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(environ={variable: value}, directory=tmp_path)
    assert caught.value.setting == variable


def test_a_wrong_line_is_refused_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "wakeful.toml"
    path.write_text('[worker]\nconcurrency = "lots"')
    with pytest.raises(ConfigError) as caught:
        read(tmp_path)
    assert caught.value.setting == f"[worker] concurrency in {path}"


UNKNOWN = [
    ("[worker]\nconcurency = 4", "did you mean concurrency in [worker]?"),
    ("pool_size = 4", "did you mean pool_size in [database]?"),
    ("[workers]\nconcurrency = 4", "did you mean worker?"),
    ("[worker]\ndsn = 'x'", "did you mean dsn in [database]?"),
    ("worker = 5", "not a table: write [worker]."),
    ("nonsense = 1", "known are"),
    ("[worker", "cannot be read"),
]


@pytest.mark.parametrize(("text", "told"), UNKNOWN)
def test_an_unknown_key_is_refused_with_what_was_meant(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "wakeful.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read(tmp_path)
    assert told in str(caught.value)
    assert str(tmp_path / "wakeful.toml") in str(caught.value)
