"""The doctor's examination, and the verdict on health: facts in, findings out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from wakeful.database.migrations.files import read_migrations, read_shape
from wakeful.observe.drift import shipped_functions, shipped_relations
from wakeful.observe.examine import examine
from wakeful.observe.verdict import HealthLimits, judge
from wakeful.values.alert import Alert
from wakeful.values.finding import Finding, worst
from wakeful.values.wording import in_words

SHIPPED = [migration.up for migration in read_migrations()]
WELL: dict[str, Any] = {
    "schema_version": 1,
    "workers_alive": 1,
    "workers_lapsed": 0,
    "workers_degraded": [],
    "jobs_wait": True,
    "oldest_ready": {"id": "x", "task": "t", "queue": "q", "seconds": 3.0},
    "dead_unacknowledged": 0,
    "stuck": [],
    "orphans": [],
    "paused": [],
}
SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "track_counts": "on",
    "synchronous_commit": "on",
}
TABLE = {"live": 10, "dead": 0, "autovacuum": "on"}


def server(**changed: Any) -> dict[str, Any]:
    import re

    names = {name for text in SHIPPED for name in re.findall(r"\bcreate (?:unique )?index (\w+)", text)}
    return {
        "version": 180_001,
        "recovering": False,
        "settings": SETTINGS,
        "roles": ["wakeful_operator", "wakeful_producer", "wakeful_viewer", "wakeful_worker"],
        "functions": [[name, None] for name in shipped_functions(SHIPPED)],
        "relations": sorted(shipped_relations(SHIPPED)),
        "indexes": [[name, True] for name in names],
        **changed,
    }


def vitals(**changed: Any) -> dict[str, Any]:
    calm: dict[str, Any] = {"oldest_snapshot": None, "prepared": [], "slots": [], "notify_queue": 0.0, "connections": 5}
    return {**calm, "max_connections": 97, "tables": {"job": TABLE}, **changed}


def findings(server_facts: dict[str, Any], vital: dict[str, Any], **more: Any) -> dict[str, Finding]:
    shape = {"shape": read_shape(), "shipped_shape": read_shape()}
    usual = {"pooled": False, "clock_difference": 0.0, "schema_version": len(SHIPPED), "shipped": SHIPPED, **shape}
    told = examine(server_facts, vital, **{**usual, **more})
    return {one.name: one for one in told if one.level != "ok"}


def test_a_well_kept_server_has_nothing_wrong() -> None:
    assert findings(server(), vitals()) == {}


HOLDER = {"pid": 7, "usename": "u", "application_name": "report", "state": "idle in transaction", "seconds": 7200.0}


@pytest.mark.parametrize(
    ("name", "level", "there", "vital", "part"),
    [
        ("server", "failing", {"recovering": True}, {}, "standby"),
        ("server", "failing", {"version": 140_010}, {}, "too old"),
        ("settings", "failing", {"settings": {**SETTINGS, "fsync": "off"}}, {}, "fsync is off"),
        ("settings", "failing", {"settings": {**SETTINGS, "autovacuum": "off"}}, {}, "autovacuum is off"),
        ("settings", "warning", {"settings": {**SETTINGS, "synchronous_commit": "off"}}, {}, "synchronous_commit"),
        (
            "snapshots",
            "failing",
            {},
            {"oldest_snapshot": HOLDER},
            "report (pid 7, idle in transaction) is open for 2 h",
        ),
        ("snapshots", "failing", {}, {"prepared": [{"gid": "g", "owner": "o", "since": "s"}]}, "Prepared"),
        ("snapshots", "warning", {}, {"slots": [{"name": "s", "active": False, "age": 1}]}, "slot s"),
        ("autovacuum", "failing", {}, {"tables": {"job": {**TABLE, "autovacuum": "off"}}}, "turned off for job"),
        ("bloat", "warning", {}, {"tables": {"job": {**TABLE, "dead": 50_000}}}, "job (50000 dead rows, 10 live)"),
        ("notify_queue", "failing", {}, {"notify_queue": 0.6}, "60% full"),
        ("connections", "warning", {}, {"connections": 90}, "90 of 97"),
        ("connections", "failing", {}, {"connections": 97}, "97 of 97"),
        ("indexes", "failing", {"indexes": []}, {}, "Missing: "),
        ("roles", "warning", {"roles": None}, {}, "wakeful_operator"),
    ],
)
def test_what_is_wrong_is_found(name: str, level: str, there: dict[str, Any], vital: dict[str, Any], part: str) -> None:
    found = findings(server(**there), vitals(**vital))[name]
    assert (found.level, part in found.told) == (level, True), found
    assert found.remedy


def test_a_pooler_and_a_clock_that_is_off_are_told_of() -> None:
    found = findings(server(), vitals(), pooled=True, clock_difference=-3.0)
    assert found.keys() == {"pooler", "clock"}


def test_what_was_changed_by_hand_is_named() -> None:
    functions = [
        [name, "begin end" if name == "rescue" else None] for name in shipped_functions(SHIPPED) if name != "stats"
    ]
    found = findings(server(functions=[*functions, ["mine", None]]), vitals())["drift"]
    for part in ("function stats is missing", "function mine was added", "function rescue was changed"):
        assert part in found.told
    assert "alert is missing" in findings(server(relations=[]), vitals())["drift"].told


def test_what_was_only_added_is_a_warning() -> None:
    shape = {**read_shape(), "index mine": "CREATE INDEX mine ON wakeful.job USING btree (tenant)"}
    found = findings(server(), vitals(), shape=shape)["drift"]
    assert (found.level, "index mine was added" in found.told) == ("warning", True)


def test_a_schema_of_another_version_is_not_compared() -> None:
    found = findings(server(functions=[], relations=[], indexes=[]), vitals(), schema_version=99, shape={})
    assert [*found] == ["drift"]
    assert found["drift"].level == "warning"
    assert found["drift"].told == "The schema is at version 99, this wakeful brings 1: they are not compared."


def test_a_queue_that_is_well_is_told_so() -> None:
    assert worst(judge(WELL, HealthLimits())) == "ok"


@pytest.mark.parametrize(
    ("changed", "level", "part"),
    [
        ({"workers_alive": 0}, "failing", "no worker is alive"),
        ({"workers_alive": 0, "jobs_wait": False, "oldest_ready": None}, "ok", "0 workers alive"),
        ({"workers_lapsed": 2}, "warning", "2 stopped beating"),
        ({"workers_degraded": ["a:1"]}, "warning", "do not reach a:1"),
        ({"oldest_ready": {**WELL["oldest_ready"], "seconds": 301}}, "failing", "has waited for 5 min 1 s"),
        ({"orphans": [{"task": "t", "queue": "q"}]}, "failing", "No worker alive serves t (queue q)"),
        ({"stuck": [{"id": "i", "task": "t"}]}, "failing", "1 job ran for longer than 1 h: i (t)"),
        ({"dead_unacknowledged": 1}, "warning", "1 dead letter is unseen"),
        ({"dead_unacknowledged": 10_001}, "warning", "More than 10000 dead letters"),
        (
            {"paused": [{"kind": "task", "name": "t", "by": "ann", "reason": None}]},
            "warning",
            "Task t is paused by ann",
        ),
        (
            {"breakers_open": [{"name": "mail", "state": "half_open", "since": "2026-11-16T03:00:00+00:00"}]},
            "warning",
            "mail is half open",
        ),
    ],
)
def test_health_is_judged(changed: dict[str, Any], level: str, part: str) -> None:
    told = judge({**WELL, **changed}, HealthLimits())
    assert worst(told) == level
    assert [one for one in told if part in one.told]
    assert all(one.remedy for one in told if one.level != "ok")


def test_spans_are_told_in_words() -> None:
    spans = (0.25, 59.0, 61.0, 3 * 3600.0, timedelta(days=9).total_seconds())
    assert [in_words(seconds) for seconds in spans] == ["0.25 s", "59 s", "1 min 1 s", "3 h", "9 days"]


@pytest.mark.parametrize(
    ("rule", "subject", "number", "threshold", "told", "over"),
    [
        ("depth", "mail", 12, 10, "12 jobs of mail are ready, more than 10.", "too many ready jobs of mail"),
        ("age", "mail", 90, 60, "The oldest ready job of mail has waited for 1 min 30 s, longer", "ready jobs of mail"),
        ("failure_rate", "mail", 0.43, 0.1, "43% of the runs of mail failed, more than 10%.", "failures of mail"),
        ("dead_letters", "", 3, 0, "3 dead letters are unseen, more than 0.", "unseen dead letters"),
        (
            "no_worker",
            "slow",
            60,
            1,
            "No worker alive serves queue slow, whose jobs have waited for 1 min.",
            "queue slow",
        ),
        ("breaker", "smtp", 1, 1, "Breaker smtp is open: its jobs wait.", "breaker smtp was open"),
        ("snapshot", "", 7200, 3600, "A transaction has been open for 2 h: vacuum", "a long transaction"),
        ("mine", "x", 2, 1, "mine of x is 2, and 1 is the limit.", "mine of x"),
    ],
)
def test_an_alert_is_a_sentence(rule: str, subject: str, number: float, threshold: float, told: str, over: str) -> None:
    assert Alert(rule, subject, number, threshold, fired=True).sentence.startswith(told)
    cleared = Alert(rule, subject, number, threshold, fired=False).sentence
    assert cleared.startswith("Over: ")
    assert over in cleared
