"""The scene as one calm screen: figures on top, workers, then the story line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from wakeful.edges.demo.chart import chart
from wakeful.edges.demo.gauge import WorkerLine
from wakeful.edges.demo.scene import Line, Scene, clock

WIDEST = 108
LEAST_COLUMNS, LEAST_ROWS = 72, 24
ROOMY_ROWS = 38
LABEL = "bright_black"
ACCENT = "cyan"
SIGNS = {"ahead": ("·", LABEL), "on": ("●", ACCENT), "alarm": ("●", "red"), "done": ("✓", "green")}


def render(scene: Scene, columns: int, rows: int) -> Padding:
    """Everything, in at most so many columns and rows."""
    width = min(columns, WIDEST) - 4
    roomy = rows >= ROOMY_ROWS
    body = booting(scene, width) if scene.began is None else playing(scene, width, roomy)
    page = Group(heading(scene, width), Rule(style=LABEL), *body)
    return Padding(page, (1 if roomy else 0, max(2, (columns - width) // 2)))


def booting(scene: Scene, width: int) -> Iterator[Text]:
    """What is being started."""
    yield Text()
    for line in scene.boot:
        yield story_line(line, width)


def playing(scene: Scene, width: int, roomy: bool) -> Iterator[Text | Rule]:
    """Figures, workers, story."""
    air = [Text()] if roomy else []
    yield from air
    yield from figures(scene, width)
    yield Text()
    yield from (Text(row, ACCENT) for row in chart(scene.rates, width, 4 if roomy else 2))
    yield progress(scene, width)
    yield Text()
    yield from workers(scene)
    yield Rule(style=LABEL)
    yield from spaced((story_line(line, width) for line in scene.lines), air)
    yield Rule(style=LABEL)
    yield footing(scene, width)


def spaced(lines: Iterable[Text], air: list[Text]) -> Iterator[Text]:
    """With air between the lines."""
    for number, line in enumerate(lines):
        yield from air if number else ()
        yield line


def heading(scene: Scene, width: int) -> Text:
    """What this is, and since when."""
    server = f"PostgreSQL {scene.version}   " if scene.version else ""
    return ends(
        Text.assemble(("wakeful", f"bold {ACCENT}"), ("  a job queue in your PostgreSQL", LABEL)),
        Text.assemble((server, LABEL), clock(scene.elapsed)),
        width,
    )


def figures(scene: Scene, width: int) -> Iterator[Text]:
    """Four numbers, each above its name."""
    counts = scene.counts
    median, slow = (f"{value:,.1f} ms" for value in counts.start_ms) if counts.start_ms else ("–", "–")
    named = [
        (f"{scene.rate:,.0f}", "jobs a second"),
        (median, "order to start"),
        (slow, "99 in 100 within"),
        (f"{counts.ready + counts.running:,}", "waiting, running"),
    ]
    column = width // len(named)
    yield Text("".join(number.ljust(column) for number, _ in named), "bold")
    yield Text("".join(name.ljust(column) for _, name in named), LABEL)


def progress(scene: Scene, width: int) -> Text:
    """How much of what was enqueued is over."""
    counts = scene.counts
    over = counts.completed + counts.dead + counts.cancelled
    told = Text.assemble("  ", (f"{over:,}", "bold"), (f" of {scene.enqueued:,} jobs done", LABEL))
    room = max(8, width - 28)
    filled = min(room, room * over // scene.enqueued) if scene.enqueued else 0
    return Text.assemble(("━" * filled, ACCENT), ("━" * (room - filled), LABEL), told)


def workers(scene: Scene) -> Iterator[Text]:
    """One row a process."""
    by_pid = {worker.pid: worker for worker in scene.workers}
    killed = scene.killed.seat if scene.killed else None
    for seat, pid in enumerate(scene.pids):
        yield worker_row(seat + 1, pid, by_pid.get(pid or 0), killed=seat == killed)


def worker_row(number: int, pid: int | None, found: WorkerLine | None, *, killed: bool) -> Text:
    """Its slots as dots, the busy ones filled."""
    row = Text.assemble(("worker ", LABEL), (str(number), "bold"), (f"  pid {pid or '–':<8}", LABEL))
    if killed:
        return row.append("killed with -9", "red").append(" · the next one starts" if pid else "", LABEL)
    if found is None:
        return row.append("starts", LABEL)
    busy = min(found.running, found.slots)
    row.append("●" * busy, ACCENT).append("○" * (found.slots - busy), LABEL)
    doing = f"{found.running} running" if found.running else "asleep" if found.asleep else "awake"
    return row.append(f"  {doing}", LABEL)


def story_line(line: Line, width: int) -> Text:
    """A sign and a sentence."""
    sign, style = SIGNS[line.state]
    text = Text.assemble((f"{sign} ", style), (line.text, LABEL if line.state == "ahead" else ""))
    text.truncate(width, overflow="ellipsis")
    return text


def footing(scene: Scene, width: int) -> Text:
    """What is promised, counted."""
    effects, completed = f"{scene.counts.effects:,}", f"{scene.counts.completed:,}"
    counted = Text.assemble((effects, "bold"), (" effects of ", LABEL), (completed, "bold"), (" completed jobs", LABEL))
    return ends(counted, Text(scene.footer, LABEL), width)


def ends(left: Text, right: Text, width: int) -> Text:
    """One at the left end of the line, one at the right."""
    return Text.assemble(left, " " * max(1, width - left.cell_len - right.cell_len), right)
