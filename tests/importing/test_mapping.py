"""A mapping is data: bad ones are one clear sentence, and no name in it is ever SQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.commands import Commands
from tests.sessions import Session, query, scalar
from wakeful.edges.importing.mapping import find_mapping, presets
from wakeful.values.errors import ConfigError
from wakeful.values.legacy import read_mapping

PLAIN: dict[str, Any] = {
    "table": "jobs",
    "states": {"waiting": ["new"]},
    "columns": {"state": "status"},
    "constants": {"task": "t"},
}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"table": None}, 'm: table is None: give its name, such as "public.jobs".'),
        ({"table": "a.b.c"}, "m: table is 'a.b.c': give its name"),
        ({"key": ""}, "m: key is '': give it a text."),
        ({"tabel": 1}, "m: tabel is not known here: did you mean table?"),
        ({"take": "steal"}, "m: take is 'steal': give delete, mark or leave."),
        ({"take": "mark"}, 'm: mark goes with take = "mark"'),
        ({"mark": {"status": "x"}}, 'm: mark goes with take = "mark"'),
        ({"states": {}}, "m: states does not say which rows wait"),
        ({"states": {"waiting": "new"}}, "m: states.waiting is 'new': give a list of words."),
        ({"states": {"waiting": ["a"], "dead": ["a"]}}, "m: states has 'a' twice"),
        ({"states": {"waits": ["a"]}}, "m: states: waits is not known here"),
        ({"columns": {}}, "m: columns does not say which column tells the state"),
        ({"columns": {"state": 1}}, "m: columns.state is 1: give it a text."),
        ({"columns": {"state": "s", "prioritty": "p"}}, "did you mean priority?"),
        ({"columns": ["state"]}, "m: columns is ['state']: give a table of names and values."),
        ({"constants": {}}, "m does not say which task a row is for"),
        ({"constants": {"task": True}}, "m: constants.task is True: give a text or a whole number."),
        ({"columns": {"state": "s", "payload": "p"}, "payload": {"a": "b"}}, "m: payload is a column and a table"),
    ],
)
def test_a_bad_mapping_is_one_clear_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_mapping({**PLAIN, **change}, "m")
    assert sentence in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_a_mapping(name: str) -> None:
    assert find_mapping(name, {}).states["waiting"]


def written(folder: Path, mapping: dict[str, Any]) -> str:
    path = folder / "mapping.json"
    path.write_text(json.dumps(mapping))
    return str(path)


def test_what_the_table_does_not_have_is_told(wakeful: Commands, db: Session, tmp_path: Path) -> None:
    assert "jobs is not in this database" in wakeful.refusal(2, "import", written(tmp_path, PLAIN))
    db.execute("create table jobs (id int, state text)")
    assert "has no column 'status': did you mean state?" in wakeful.refusal(2, "import", written(tmp_path, PLAIN))
    mapping = written(tmp_path, {**PLAIN, "columns": {"state": "state"}})
    assert "key id has no unique index in jobs" in wakeful.refusal(2, "import", mapping)
    db.execute("alter table jobs add primary key (id)")
    assert wakeful.json("import", mapping)["moved"] == 0
    zone = written(tmp_path, {**PLAIN, "columns": {"state": "state"}, "timezone": "Mars/Olympus"})
    assert "Mars/Olympus is not known" in wakeful.refusal(2, "import", zone)


def test_wrong_usage_is_told(wakeful: Commands, tmp_path: Path) -> None:
    assert "is no file that can be read" in wakeful.refusal(2, "import", "nowhere.toml")
    (tmp_path / "bad.toml").write_text("table =")
    assert "is not TOML" in wakeful.refusal(2, "import", str(tmp_path / "bad.toml"))
    assert "--back goes with none" in wakeful.refusal(2, "import", "lipas", "--back", "--dry-run")
    assert "is no preset" in wakeful.refusal(2, "import", "x.toml", "--show")
    assert "--aged" in wakeful.refusal(2, "import", "implicate", "--aged", "soon")


EVIL = 'x%(limit)s"; drop table precious; --'


def test_names_reach_the_server_as_names_only(wakeful: Commands, db: Session, tmp_path: Path) -> None:
    """A table whose every name tries to be SQL is moved like any other, and back."""
    db.execute("create table precious (id int)")
    quoted = EVIL.replace('"', '""')
    table = f'"{quoted} t"'
    db.execute(
        f'create table {table} ("{quoted} k" int primary key, "{quoted} s" text,'
        f' "{quoted} p" text, "{quoted} m" text)'.encode()
    )
    db.execute(f"insert into {table} values (1, $$it's$$, 'a', null), (2, $$it's$$, 'b', null)".encode())
    mapping = {
        "table": [f"{EVIL} t"],
        "key": f"{EVIL} k",
        "source": f"{EVIL} source",
        "take": "mark",
        "mark": {f"{EVIL} s": "'); drop table precious; --", f"{EVIL} m": "%(keys)s {} %s"},
        "states": {"waiting": ["it's"]},
        "columns": {"state": f"{EVIL} s"},
        "constants": {"task": "'||(select 1)||'"},
        "payload": {EVIL: f"{EVIL} p", "%(x)s": f"{EVIL} p"},
        "tasks": {EVIL: EVIL},
    }
    path = written(tmp_path, mapping)
    assert wakeful.json("import", path)["moved"] == 2
    [first, _] = query(db, "select task, payload from wakeful.jobs order by payload::text")
    assert first == {"task": "'||(select 1)||'", "payload": {EVIL: "a", "%(x)s": "a"}}
    assert wakeful.json("import", path, "--back")["moved"] == 2
    assert scalar(db, f'select count(*) from {table} where "{quoted} s" = $$it\'s$$') == 2
    assert scalar(db, "select count(*) from precious") == 0


def test_times_without_a_zone_are_read_in_the_zone_that_is_named(
    wakeful: Commands, db: Session, tmp_path: Path
) -> None:
    db.execute("create table jobs (id int primary key, status text, due timestamp)")
    db.execute("insert into jobs values (1, 'new', '2999-07-01 12:00')")
    mapping = {**PLAIN, "columns": {"state": "status", "run_at": "due"}, "timezone": "Europe/Helsinki"}
    assert wakeful.json("import", written(tmp_path, mapping))["moved"] == 1
    assert scalar(db, "select run_at = '2999-07-01 12:00+03' from wakeful.jobs")
