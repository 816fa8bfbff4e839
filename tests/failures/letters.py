"""Dead letters put back in bulk by the command line, on a terminal, interrupted again and again."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.failures.trial import Finding, Site, broken
from tests.sessions import Session, scalar, session
from tests.worker.processes import until

INTERRUPTIONS = 3
FEW = 400
MOST_MORE_KB = 8_192

INSERT_LETTERS = """
insert into wakeful.dead_letter (
    id, task, queue, tenant, correlation_id, error_code, error_message, died_at, original_job)
select i.id, %(task)s, 'default', 'a', i.id, 'E42', 'broke', now(), jsonb_build_object(
    'id', i.id, 'task', %(task)s::text, 'queue', 'default', 'rank', 0, 'max_attempts', 5, 'correlation_id', i.id,
    'payload', jsonb_build_object('n', i.n))
from (select gen_random_uuid() as id, n from generate_series(1, %(number)s) n) i
"""


def letters(site: Site) -> Finding:
    """All of one task, by filter; then a few of another, to compare the memory that it takes."""
    number = site.sizes.letters
    with session(site.dsn) as db:
        db.execute(INSERT_LETTERS, {"task": "many", "number": number})
        db.execute(INSERT_LETTERS, {"task": "few", "number": FEW})
        runs = [requeue(site, db, "many", until_done=part * number // 4) for part in range(1, INTERRUPTIONS + 1)]
        runs.append(requeue(site, db, "many"))
        few = requeue(site, db, "few")
        jobs = count(db, "wakeful.job where task = 'many'")
        payloads = int(scalar(db, "select count(distinct payload ->> 'n') from wakeful.job where task = 'many'"))
        linked = count(
            db,
            "wakeful.dead_letter d join wakeful.job j on j.id = d.requeued_as and j.origin_id = d.id"
            " where d.task = 'many'",
        )
        audited = count(db, "wakeful.audits where act = 'requeue' and actor = 'tester'")
    more = max(run.peak_kb for run in runs) - few.peak_kb
    shown = [re.findall(r"(\d+)%", run.screen) for run in runs]
    return Finding(
        {
            "dead letters": f"{number:,}",
            "interrupted": INTERRUPTIONS,
            "put back": f"{jobs:,}",
            "lost": number - payloads,
            "doubled": jobs - payloads,
            "seconds": f"{sum(run.seconds for run in runs):.0f}",
            "peak memory": f"{max(run.peak_kb for run in runs) / 1024:.1f} MB",
            f"beside {FEW} letters": f"{more / 1024:+.1f} MB",
        },
        broken(
            none_is_lost_or_doubled=jobs == payloads == number,
            each_is_linked_both_ways=linked == number,
            each_act_is_audited=audited == number + FEW,
            memory_is_bounded=more <= MOST_MORE_KB,
            an_interrupted_run_says_so=all(run.code == 130 and "Interrupted" in run.screen for run in runs[:-1]),
            the_last_run_ends_well=runs[-1].code == 0,
            # A short run may be over before its bar is drawn twice.
            a_bar_moves=len(set().union(*shown)) > 2 and shown[-1][-1:] == ["100"],
        ),
    )


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the command."""

    code: int
    screen: str
    peak_kb: int
    seconds: float


def requeue(site: Site, db: Session, task: str, until_done: int | None = None) -> Run:
    """`wakeful dead requeue --task … --yes`, interrupted as by Ctrl-C once so many are back."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    # Few letters are put back no faster than a person could interrupt it.
    rate = str(site.sizes.letters // 2)
    command = [sys.executable, "-m", "wakeful.edges.cli", "dead", "requeue", "--task", task, "--rate", rate, "--yes"]
    environment = {**os.environ, "WAKEFUL_DSN": site.dsn, "WAKEFUL_ACTOR": "tester", "TERM": "xterm"}
    began = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    screen = Screen(ours, process.pid)
    if until_done is not None:
        until(lambda: count(db, f"wakeful.job where task = '{task}'") >= until_done or process.poll() is not None, 300)
        process.send_signal(signal.SIGINT)
    code = process.wait(600)
    screen.join()
    return Run(code, screen.text, screen.peak_kb, time.monotonic() - began)


class Screen(threading.Thread):
    """Reads a terminal to its end, and looks at the memory of whoever writes to it."""

    def __init__(self, terminal: int, pid: int) -> None:
        super().__init__(daemon=True)
        self._terminal, self._pid = terminal, pid
        self.text, self.peak_kb = "", 0
        self.start()

    def run(self) -> None:
        """Until the other end is closed."""
        while True:
            try:
                read = os.read(self._terminal, 65_536)
            except OSError:  # Linux's way to say so.
                break
            if not read:
                break
            self.text += read.decode(errors="replace")
            self._look()
        os.close(self._terminal)

    def _look(self) -> None:
        try:
            status = Path(f"/proc/{self._pid}/status").read_text()
        except OSError:
            return
        if found := re.search(r"VmHWM:\s+(\d+)", status):
            self.peak_kb = max(self.peak_kb, int(found[1]))


def count(db: Session, where: str) -> int:
    """How many rows there are."""
    return int(scalar(db, f"select count(*) from {where}"))
