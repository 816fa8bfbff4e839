"""Log lines: one JSON object each, or a line for people."""

from __future__ import annotations

import json
import logging
import sys

from wakeful.edges.logs import JsonLines, TextLines


def record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("wakeful.worker", logging.WARNING, __file__, 1, message, arguments, None)
    made.created = 1_700_000_000.25
    vars(made).update(extra)
    return made


def test_a_json_line_has_the_event_the_sentence_and_the_fields() -> None:
    line = json.loads(JsonLines().format(record("lease_lost: job %s", "j", event="lease_lost", job_id="j", tries=2)))
    pid = line.pop("pid")
    assert isinstance(pid, int)
    assert line == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "event": "lease_lost",
        "logger": "wakeful.worker",
        "message": "job j",
        "job_id": "j",
        "tries": 2,
    }


def test_a_line_of_the_application_is_an_event_too_and_cannot_forge_a_field() -> None:
    line = json.loads(JsonLines().format(record("hello\nthere", level="forged", odd=object)))
    assert (line["event"], line["message"], line["level"]) == ("log", "hello\nthere", "warning")
    assert line["odd"] == "<class 'object'>"


def test_a_line_for_people_is_short_and_has_no_colours_unless_asked() -> None:
    made = record("worker_started", event="worker_started", id="01a1e124-0000-7000-8000-00000000036d", slots=3)
    shown = TextLines(colours=False).format(made)
    assert shown.endswith("  worker started  id=01a1e124…036d slots=3")
    assert "\x1b" not in shown
    assert "\x1b[33mworker started\x1b[0m" in TextLines(colours=True).format(made)


def test_a_traceback_comes_along() -> None:
    try:
        raise ValueError("deep")
    except ValueError:
        made = record("failed")
        made.exc_info = sys.exc_info()
    assert "ValueError: deep" in json.loads(JsonLines().format(made))["traceback"]
    assert TextLines(colours=False).format(made).endswith("ValueError: deep")
