"""Log lines: readable ones on a terminal, JSON for machines elsewhere.

A line that means something to machines has an `event`; what else it carries (`job_id`, `worker_id`, …) are fields of
their own. Whatever the application logs comes out in the same form.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Final, Literal, TextIO

from wakeful.observe.job_fields import JobFields

Format = Literal["auto", "json", "text"]
Level = Literal["debug", "info", "warning", "error"]

# What logging itself puts on a record; the rest was given by `extra`.
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "event"}
_COLOURS: Final[Mapping[int, str]] = {
    logging.DEBUG: "2",
    logging.WARNING: "33",
    logging.ERROR: "31",
    logging.CRITICAL: "1;31",
}


def set_up(form: Format = "auto", level: Level = "info", stream: TextIO | None = None) -> None:
    """Send everything that is logged from `level` on to `stream` (stderr). Call it before the app is imported.

    An app that sets up logging of its own afterwards has its way.
    """
    target = sys.stderr if stream is None else stream
    as_text = form == "text" or (form == "auto" and target.isatty())
    handler = logging.StreamHandler(target) if as_text else JsonHandler(target)
    handler.setFormatter(TextLines(coloured(target)) if as_text else JsonLines())
    handler.addFilter(JobFields())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def coloured(stream: TextIO) -> bool:
    """Whether colours are welcome there."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def event_of(record: logging.LogRecord) -> str:
    """The event's name; `log` for lines that have none."""
    return str(getattr(record, "event", None) or "log")


def text_of(record: logging.LogRecord) -> str:
    """The sentence, without the event's name in front of it; empty when there is no more than that."""
    text, event = record.getMessage(), event_of(record)
    if text == event:
        return ""
    return text.removeprefix(f"{event}: ")


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """What was given by `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _OWN}


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, event, logger, process, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, object] = {
            "time": _moment(record.created),
            "level": record.levelname.lower(),
            "event": event_of(record),
            "logger": record.name,
            "pid": record.process,
        }
        if text := text_of(record):
            line["message"] = text
        line |= {name: value for name, value in fields_of(record).items() if name not in line}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class JsonHandler(logging.StreamHandler[TextIO]):
    """Writes JSON lines; those that come by the hundred, as one text and with one call."""

    def write_lines(self, level: int, event: str, objects: Iterable[str]) -> None:
        """Lines of one event, as JsonLines makes them of records of `wakeful.worker`; objects come without braces."""
        name = logging.getLevelName(level).lower()
        head = f'{{"time":"{_moment(time.time())}","level":"{name}","event":"{event}",'
        tail = f',"logger":"wakeful.worker","pid":{os.getpid()}}}\n'
        try:
            if text := (tail + head).join(objects):
                with self.lock or nullcontext():
                    self.stream.write(f"{head}{text}{tail}")
                    self.flush()
        # As logging does with a line that cannot be written: it is told, and ends nothing.
        except Exception:
            self.handleError(logging.makeLogRecord({"msg": "write_lines"}))


class TextLines(logging.Formatter):
    """For people: the time of day, the event, the sentence, then the fields, dimmed."""

    def __init__(self, colours: bool) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """The line, and the traceback below it."""
        event = event_of(record)
        head = record.name if event == "log" else event.replace("_", " ")
        parts = [
            self._in("2", time.strftime("%H:%M:%S", time.localtime(record.created))),
            self._in(_COLOURS.get(record.levelno, ""), head),
            text_of(record),
            self._in("2", " ".join(f"{name}={_short(value)}" for name, value in fields_of(record).items())),
        ]
        line = "  ".join(part for part in parts if part)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line

    def _in(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours and colour and text else text


def _moment(seconds: float) -> str:
    whole, millis = divmod(int(seconds * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{millis:03d}Z"


def _short(value: object) -> str:
    text = str(value)
    return f"{text[:8]}…{text[-4:]}" if len(text) == 36 and text.count("-") == 4 else text
