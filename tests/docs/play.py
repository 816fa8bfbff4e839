"""Plays a page: runs its snippets as a reader would, one after the other."""

from __future__ import annotations

import ast
import asyncio
import configparser
import inspect
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from psycopg import sql

from tests.docs import commands
from tests.docs.snippets import Snippet
from wakeful import Wakeful
from wakeful.config import load
from wakeful.testing import Database

BIN = Path(sys.executable).parent
PATIENCE_SECONDS = 45.0
_GSET = re.compile(r"[ \n]*\\gset\s*\Z")
_VARIABLE = re.compile(r":'(\w+)'")
_COMMAND = re.compile(r"^ *command: (\[.*\])$", re.MULTILINE)
_CALL = re.compile(r"^(?:\$ )?wakeful .*$", re.MULTILINE)


class Play:
    """A page that is being played, in `folder`; without a database it is left to the embedded server there."""

    def __init__(self, folder: Path, database: Database | None, module: ModuleType) -> None:
        self._folder = folder
        self._database = database
        self._module = module
        self._stack = ExitStack()
        self._runner = self._stack.enter_context(asyncio.Runner())
        self._stack.callback(self._close_apps)
        self._variables: dict[str, object] = {}
        self._last: tuple[Snippet, str] | None = None
        self._terminal = folder / "terminal.log"
        self._overheard = 0

    def __enter__(self) -> Play:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def step(self, snippet: Snippet) -> None:
        """Run one snippet; an error says where it stands."""
        try:
            if "skip" in snippet.remarks:
                return
            if snippet.language == "output" and "terminal" in snippet.remarks:
                self._overhear(snippet.text)
            elif snippet.language == "output":
                self._compare(snippet.text)
            elif "file" in snippet.remarks:
                (self._folder / snippet.remarks["file"]).write_text(snippet.text)
            else:
                self._last = (snippet, self._print(snippet))
        except BaseException as error:
            # Whatever it was, the reader of the failure needs the place.
            error.add_note(f"in the snippet at {snippet.place}")
            raise

    def _print(self, snippet: Snippet) -> str:
        """Run it; what it prints."""
        wanted = snippet.remarks.get("raises")
        try:
            answer = self._run(snippet)
        except Exception as error:
            # Compared with the one that the page announces.
            if wanted is None or wanted not in (type(error).__name__, getattr(error, "sqlstate", None)):
                raise
            return f"{error}\n"
        assert wanted is None, f"{wanted} was not raised"
        return answer

    def _run(self, snippet: Snippet) -> str:
        match snippet.language:
            case "python":
                return self._python(snippet)
            case "sql":
                return self._sql(snippet.text)
            case "sh":
                return self._shell(snippet)
            case "":
                return _check_calls("\n".join(_CALL.findall(snippet.text)))
            case "toml":
                return self._settings(snippet.text)
            case "ini":
                return self._unit(snippet.text)
            case "yaml":
                return _check_calls(
                    "\n".join(shlex.join(json.loads(words)) for words in _COMMAND.findall(snippet.text))
                )
            case "text":
                return ""
        raise AssertionError(f"nothing is known of {snippet.language!r}: name another language, or say skip and why")

    def _python(self, snippet: Snippet) -> str:
        # Empty lines before it make the line numbers of a traceback those of the page.
        source = "\n" * (snippet.line - 1) + snippet.text
        code = compile(source, snippet.page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        printed = io.StringIO()
        with redirect_stdout(printed):
            if code.co_flags & inspect.CO_COROUTINE:
                self._runner.run(eval(code, vars(self._module)))  # noqa: S307
            else:
                exec(code, vars(self._module))  # noqa: S102
        return printed.getvalue()

    def _sql(self, text: str) -> str:
        assert self._database is not None
        body = _GSET.sub("", _VARIABLE.sub(self._literal, text))
        with self._database.connect() as conn:
            cursor = conn.execute(body.encode())
            while cursor.nextset():
                pass
            if cursor.description is None:
                return ""
            names, rows = [column.name for column in cursor.description], cursor.fetchall()
        if _GSET.search(text):
            [row] = rows
            self._variables |= dict(zip(names, row, strict=True))
        return "".join(f"{' | '.join(map(str, row))}\n" for row in [names, *rows])

    def _literal(self, found: re.Match[str]) -> str:
        return sql.Literal(str(self._variables[found[1]])).as_string()

    def _shell(self, snippet: Snippet) -> str:
        _check_calls(snippet.text)
        if "background" in snippet.remarks:
            self._start(snippet.text)
        elif "run" in snippet.remarks:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", snippet.text],
                **self._surroundings(),
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.returncode == 0, done.stderr
            return str(done.stdout)
        return ""

    def _start(self, text: str) -> None:
        with self._terminal.open("w") as log:
            process = subprocess.Popen(["bash", "-c", f"exec {text}"], **self._surroundings(), stdout=log, stderr=log)
        self._stack.callback(_end, process)

    def _surroundings(self) -> dict[str, Any]:
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        return {"cwd": self._folder, "env": {**os.environ, "PATH": path, "WAKEFUL_LOG_FORMAT": "text"}}

    def _settings(self, text: str) -> str:
        name = "pyproject.toml" if "tool" in tomllib.loads(text) else "wakeful.toml"
        (self._folder / name).write_text(text)
        load(environ={}, directory=self._folder)
        (self._folder / name).unlink()
        return ""

    def _unit(self, text: str) -> str:
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.read_string(text)
        for section in unit.sections():
            for value in unit[section].values():
                _check_calls(value)
        return ""

    def _compare(self, wanted: str) -> None:
        assert self._last is not None, "there is no output before the first snippet"
        snippet, printed = self._last
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "eventually" in snippet.remarks and not _is_like(printed, wanted) and time.monotonic() < deadline:
            time.sleep(0.3)
            printed = self._print(snippet)
        assert _is_like(printed, wanted), f"it prints\n{printed}"

    def _overhear(self, wanted: str) -> None:
        """Wait until what runs in the background has printed this since the last time, and maybe more before."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _is_like(told := self._terminal.read_text()[self._overheard :], f"…{wanted}"):
            assert time.monotonic() < deadline, f"the terminal shows\n{told}"
            time.sleep(0.05)
        self._overheard += len(told)

    def _close_apps(self) -> None:
        for value in vars(self._module).values():
            if isinstance(value, Wakeful):
                self._runner.run(value.aclose())


def _check_calls(text: str) -> str:
    """Nothing is printed by what is only read."""
    for arguments in commands.calls(text):
        commands.check(arguments)
    return ""


def _is_like(printed: str, wanted: str) -> bool:
    pattern = ".*".join(re.escape(_squeezed(part)) for part in wanted.split("…"))
    return re.fullmatch(pattern, _squeezed(printed), re.DOTALL) is not None


def _squeezed(text: str) -> str:
    """Without what is only layout: blanks at the ends of lines, how many are between words, how long a rule is."""
    return "\n".join(re.sub(r" +", " ", re.sub(r"-{3,}", "---", line)).strip() for line in text.splitlines()).strip()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_SECONDS) == 0
