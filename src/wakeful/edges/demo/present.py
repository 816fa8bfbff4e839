"""The demo as a visitor meets it: a live screen or lines of text, then the summary."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from wakeful.edges.demo.accounts import accounts, summary
from wakeful.edges.demo.gauge import Books
from wakeful.edges.demo.plain import PlainLines
from wakeful.edges.demo.play import play
from wakeful.edges.demo.scene import Scene
from wakeful.edges.demo.screen import LABEL, LEAST_COLUMNS, LEAST_ROWS, SIGNS, render
from wakeful.edges.demo.shop import app
from wakeful.edges.demo.show import Show

FRAME_SECONDS = 0.12
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LAST_LOG_LINES = 20


class View(Protocol):
    """Something that shows a scene."""

    def show(self, scene: Scene) -> None: ...


class LiveScreen:
    """The whole terminal, until the end."""

    def __init__(self, live: Live, console: Console) -> None:
        self._live = live
        self._console = console

    def show(self, scene: Scene) -> None:
        """Draw it anew."""
        self._live.update(render(scene, self._console.width, self._console.height), refresh=True)


async def present(dsn: str | None, seconds: float, *, leave: bool) -> int:
    """Play the demo; 0 when everything adds up. Abandoned after a second Ctrl-C, with everything cleaned up."""
    console = Console()
    # What the supervisor logs would be written across the screen.
    logging.getLogger("wakeful").addHandler(logging.NullHandler())
    scene = Scene()
    show = Show(app, scene, seconds, endless=console.is_terminal and not leave)
    playing = asyncio.create_task(play(show, dsn))
    end_by_signals(show)
    with view(console) as shown:
        while not playing.done():
            shown.show(scene)
            await asyncio.wait([playing], timeout=FRAME_SECONDS)
        books = playing.result()
        shown.show(scene)
    return conclude(console, scene, books)


def end_by_signals(show: Show) -> None:
    """The first signal ends the story in order, the second at once, as does one before the story has begun."""

    def receive() -> None:
        if show.ending or show.scene.began is None:
            show.abandon()
        else:
            show.end()

    for number in STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, receive)


@contextmanager
def view(console: Console) -> Iterator[View]:
    """The screen, where there is room for it; else lines."""
    if console.is_terminal and console.width >= LEAST_COLUMNS and console.height >= LEAST_ROWS:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            yield LiveScreen(live, console)
    else:
        yield PlainLines(lambda text: console.print(text, highlight=False, soft_wrap=True))


def conclude(console: Console, scene: Scene, books: Books) -> int:
    """Print what happened and whether it adds up; the exit code says the same."""
    if console.is_terminal:
        for line in scene.lines:
            sign, style = SIGNS[line.state]
            console.print(Text.assemble(("  " + sign, style), f" {line.text}"), soft_wrap=True)
        console.print()
    fine = all(account.holds for account in accounts(scene.enqueued, books)) and not books.live
    console.print(Text("Every job is accounted for." if fine else "It does not add up.", "bold"))
    for holds, text in summary(scene, books):
        console.print(Text.assemble(("  ✓ ", "green") if holds else ("  ✗ ", "red"), text), soft_wrap=True)
    if fine:
        console.print(Text("Your own: wakeful dev module:app", LABEL))
        return 0
    console.print(Text("\n".join(scene.log.splitlines()[-LAST_LOG_LINES:])), soft_wrap=True)
    return 1
