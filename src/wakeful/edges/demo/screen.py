"""The scene as one calm screen: figures on top, workers, then the story line by line."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from wakeful.edges.demo.gauge import WorkerLine
from wakeful.edges.demo.scene import Line, Scene, clock

WIDEST = 104
LEAST_COLUMNS, LEAST_ROWS = 72, 22
LABEL = "bright_black"
ACCENT = "cyan"
BARS = " ▁▂▃▄▅▆▇█"
SIGNS = {"ahead": ("·", LABEL), "on": ("●", ACCENT), "done": ("✓", "green")}


def render(scene: Scene, columns: int, rows: int) -> Padding:
    """Everything, in at most so many columns and rows."""
    width = min(columns, WIDEST) - 4
    roomy = rows >= LEAST_ROWS + 8
    parts = [
        heading(scene, width),
        Rule(style=LABEL),
        *spaced(figures(scene, width), roomy),
        Text(),
        *workers(scene, width),
        Rule(style=LABEL),
        *spaced([story_line(line, width) for line in scene.lines], roomy),
        Rule(style=LABEL),
        footing(scene, width),
    ]
    return Padding(Group(*parts), (1 if roomy else 0, 2))


def spaced(lines: list[Text], roomy: bool) -> Iterator[Text]:
    """With air between the lines where there is room for it."""
    for line in lines:
        yield line
        if roomy and line is not lines[-1]:
            yield Text()


def heading(scene: Scene, width: int) -> Text:
    """What this is, and since when."""
    server = f"PostgreSQL {scene.version}   " if scene.version else ""
    return ends(
        Text.assemble(("wakeful", f"bold {ACCENT}"), ("  a job queue in your PostgreSQL", LABEL)),
        Text.assemble((server, LABEL), clock(scene.elapsed)),
        width,
    )


def figures(scene: Scene, width: int) -> list[Text]:
    """How fast, how soon, how far."""
    counts = scene.counts
    soon = f"{counts.start_ms[0]:.1f}" if counts.start_ms else "–"
    late = f"{counts.start_ms[1]:.1f}" if counts.start_ms else "–"
    speed = Text.assemble((f"{scene.rate:>6,.0f}", "bold"), (" jobs/s  ", LABEL))
    start = Text.assemble(
        ("order to start  ", LABEL), (soon, "bold"), (" ms median  ", LABEL), (late, "bold"), (" ms p99", LABEL)
    )
    chart = width - speed.cell_len - start.cell_len - 3
    top = Text.assemble(speed, (sparkline(list(scene.rates)[-chart:]).ljust(chart), ACCENT), "   ", start)
    return [top, progress(scene, width)]


def sparkline(values: list[float]) -> str:
    """One sign a sample, the highest full."""
    most = max(values, default=0.0) or 1.0
    return "".join(BARS[round(value / most * (len(BARS) - 1))] for value in values)


def progress(scene: Scene, width: int) -> Text:
    """How much of what was enqueued is over."""
    counts = scene.counts
    left = Text.assemble((f"{counts.completed:>6,}", "bold"), (" completed  ", LABEL))
    waiting = f"{counts.ready + counts.running:,} waiting or running, {counts.scheduled:,} for later"
    right = Text.assemble(("  of ", LABEL), (f"{scene.enqueued:,}", "bold"), (f"   {waiting}", LABEL))
    room = max(8, width - left.cell_len - right.cell_len)
    over = counts.completed + counts.dead + counts.cancelled
    filled = min(room, round(room * over / scene.enqueued)) if scene.enqueued else 0
    return Text.assemble(left, ("━" * filled, ACCENT), ("━" * (room - filled), LABEL), right)


def workers(scene: Scene, width: int) -> Iterator[Text]:
    """One row a process."""
    by_pid = {worker.pid: worker for worker in scene.workers}
    for number, pid in enumerate(scene.pids, start=1):
        yield worker_row(number, pid, by_pid.get(pid or 0))


def worker_row(number: int, pid: int | None, found: WorkerLine | None) -> Text:
    """Its slots as dots, the busy ones filled."""
    row = Text.assemble(("worker ", LABEL), (str(number), "bold"), (f"  pid {pid or '–':<8}", LABEL))
    if pid is None:
        return row.append("killed with -9", "red").append("  its jobs come back when its lease lapses", LABEL)
    if found is None:
        return row.append("starting", "yellow")
    busy = min(found.running, found.slots)
    row.append("●" * busy, ACCENT).append("○" * (found.slots - busy), LABEL)
    return row.append(f"  {found.running} running" if found.running else "  asleep" if found.asleep else "  idle", LABEL)


def story_line(line: Line, width: int) -> Text:
    """A sign and a sentence."""
    sign, style = SIGNS[line.state]
    text = Text.assemble((f"{sign} ", style), (line.text, LABEL if line.state == "ahead" else ""))
    text.truncate(width, overflow="ellipsis")
    return text


def footing(scene: Scene, width: int) -> Text:
    """What is promised, counted."""
    effects, completed = scene.counts.effects, scene.counts.completed
    counted = Text.assemble((f"{effects:,}", "bold"), (" effects of ", LABEL), (f"{completed:,}", "bold"))
    counted.append(" completed jobs, each exactly once", LABEL)
    return ends(counted, Text(scene.footer, LABEL), width)


def ends(left: Text, right: Text, width: int) -> Text:
    """One at the left end of the line, one at the right."""
    return Text.assemble(left, " " * max(1, width - left.cell_len - right.cell_len), right)
