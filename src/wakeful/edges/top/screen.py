"""The screen: tables that are written anew every second or two, a line of throughput, and keys that act."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Final
from uuid import UUID

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Sparkline, Static, TabbedContent, TabPane

from wakeful.edges.cli.showing import age
from wakeful.edges.top.scene import MOST_ROWS, Asks, Scene, look
from wakeful.statements import operate, policy
from wakeful.statements.statement import Statement
from wakeful.values.errors import WakefulError

Connects = Callable[[], AbstractContextManager[Asks]]

SECONDS: Final = 120
COLUMNS: Final[dict[str, Sequence[str]]] = {
    "queues": ("queue", "ready", "oldest", "scheduled", "running", "paused"),
    "running": ("id", "task", "queue", "try", "for", "worker"),
    "failures": ("id", "task", "died", "code", "message"),
    "workers": ("name", "state", "running", "beat", "tasks"),
    "breakers": ("breaker", "state", "failures", "next try", "tasks"),
    "tasks": ("task", "done", "failed", "dead", "p50 ms", "p95 ms", "wait p95 ms"),
}


class Top(App[None]):
    """`connects` opens a connection; the actor is noted on what is done by keys."""

    TITLE = "wakeful top"
    # The tabs take what is left: a screen that scrolled would hide its first line.
    CSS = "Sparkline { height: 3; margin: 0 1; } #line { margin: 0 1; } TabbedContent, DataTable { height: 1fr; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("p", "pause", "Pause/resume"),
        Binding("r", "retry", "Requeue"),
        Binding("a", "ack", "Ack"),
        Binding("b", "close", "Close breaker"),
    ]

    def __init__(self, connects: Connects, *, every: float, actor: str | None) -> None:
        super().__init__()
        self._connects = connects
        self._every = every
        self._actor = actor
        self._began: Scene | None = None
        self._last: Scene | None = None
        self._rates: deque[float] = deque([0.0] * 2, maxlen=SECONDS)

    def compose(self) -> ComposeResult:
        """The parts of the screen, top to bottom."""
        yield Static("…", id="line")
        yield Sparkline(list(self._rates), id="rates")
        with TabbedContent():
            for name in COLUMNS:
                with TabPane(name.capitalize(), id=f"{name}-tab"):
                    yield DataTable(id=name, cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        """Make the tables, and begin to look."""
        for name, columns in COLUMNS.items():
            self._table(name).add_columns(*columns)
        self.set_interval(self._every, self.look)
        self.look()

    @work(thread=True, exclusive=True)
    def look(self) -> None:
        """Read in a thread: a slow answer does not freeze the keys."""
        try:
            with self._connects() as asks:
                scene = look(asks, None if self._began is None else self._began.at)
        except WakefulError as error:
            self.call_from_thread(self._say, error.message)
        else:
            self.call_from_thread(self.show, scene)

    def show(self, scene: Scene) -> None:
        """Write everything anew."""
        before, self._last = self._last, scene
        if before is None:
            self._began = scene
        elif (seconds := (scene.at - before.at).total_seconds()) > 0:
            self._rates.append(max(0.0, (scene.runs - before.runs) / seconds))
            self.query_one("#rates", Sparkline).data = list(self._rates)
        ready = sum(queue.ready for queue in scene.queues)
        alive = sum(worker.alive for worker in scene.workers)
        more = "+" if len(scene.dead) >= MOST_ROWS else ""
        self._say(
            f"{self._rates[-1]:,.0f} runs/s · {ready:,} ready · {sum(q.running for q in scene.queues):,} running · "
            f"{alive} {'worker' if alive == 1 else 'workers'} · {len(scene.dead)}{more} dead, unseen"
        )
        for name, rows in rows_of(scene).items():
            self._fill(name, rows)

    def action_pause(self) -> None:
        """Pause the queue under the cursor, or resume it."""
        if self._last is not None and (name := self._chosen("queues")) is not None:
            paused = next((one.paused for one in self._last.queues if one.queue == name), False)
            verb = operate.resume_queue if paused else operate.pause_queue
            self._act(verb(name, self._actor, None), f"Queue {name} is {'resumed' if paused else 'paused'}.")

    def action_retry(self) -> None:
        """Put the failure under the cursor back."""
        if (id := self._chosen("failures")) is not None:
            self._act(operate.requeue([UUID(id)], self._actor), f"{id} is put back.")

    def action_ack(self) -> None:
        """Acknowledge the failure under the cursor."""
        if (id := self._chosen("failures")) is not None:
            self._act(operate.acknowledge([UUID(id)], self._actor), f"{id} is acknowledged.")

    def action_close(self) -> None:
        """Close the breaker under the cursor: what waits behind it starts."""
        if (name := self._chosen("breakers")) is not None:
            self._act(policy.reset(name, self._actor, None), f"Breaker {name} is closed.")

    @work(thread=True)
    def _act(self, statement: Statement[object], done: str) -> None:
        try:
            with self._connects() as asks:
                asks.run(statement)
        except WakefulError as error:
            self.call_from_thread(self.notify, error.message, severity="error")
        else:
            self.call_from_thread(self.notify, done)
            self.call_from_thread(self.look)

    def _chosen(self, name: str) -> str | None:
        table = self._table(name)
        if self.query_one(TabbedContent).active != f"{name}-tab" or not table.row_count:
            self.notify(f"Choose one under {name.capitalize()} first.", severity="warning")
            return None
        return str(table.get_row_at(table.cursor_row)[0])

    def _fill(self, name: str, rows: Sequence[Sequence[object]]) -> None:
        table = self._table(name)
        at = table.cursor_row
        table.clear()
        for row in rows:
            table.add_row(*(_cell(value) for value in row))
        if rows:
            table.move_cursor(row=min(at, len(rows) - 1))

    def _table(self, name: str) -> DataTable[Text]:
        return self.query_one(f"#{name}", DataTable)

    def _say(self, text: str) -> None:
        self.query_one("#line", Static).update(text)


def rows_of(scene: Scene) -> dict[str, list[Sequence[object]]]:
    """What stands in each table."""
    now = scene.at
    return {
        "queues": [
            (one.queue, one.ready, age(one.oldest_ready_at, now), one.scheduled, one.running, one.paused)
            for one in scene.queues
        ],
        "running": [
            (one.id, one.task, one.queue, f"{one.attempt}/{one.max_attempts}", age(one.started_at, now), one.worker_id)
            for one in scene.running
        ],
        "failures": [
            (one.id, one.task, age(one.died_at, now), one.error_code, one.error_message) for one in scene.dead
        ],
        "workers": [
            (
                *(one.name, _state(one.alive, one.asleep), f"{one.running}/{one.slots}"),
                *(age(one.beat_at, now), ", ".join(one.tasks)),
            )
            for one in scene.workers
        ],
        "breakers": [
            (
                *(one.name, one.state.replace("_", " "), f"{one.failure_count}/{one.threshold}"),
                *(age(one.next_probe_at, now), ", ".join(one.tasks)),
            )
            for one in scene.breakers
        ],
        "tasks": [
            (one.task, one.completed, one.failed, one.dead, *map(_millis, (one.run_p50, one.run_p95, one.wait_p95)))
            for one in scene.tasks
        ],
    }


def _state(alive: bool, asleep: bool) -> str:
    return ("asleep" if asleep else "busy") if alive else "lapsed"


def _millis(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.3g}"


def _cell(value: object) -> Text:
    text = {True: "yes", False: ""}.get(value, str(value)) if isinstance(value, bool) else str(value)
    # Whatever a job carries, it is shown and not obeyed.
    return Text("".join(sign if sign.isprintable() else " " for sign in text))
