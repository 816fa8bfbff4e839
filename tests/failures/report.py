"""What the trials came to: lines for a terminal, and the page in the docs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from tests.failures.trial import Finding

PREFACE: Final = """
# Proof: what holds over the whole fleet while things fail

`make proof-failures` writes this page: limits, rates, circuit breakers, fair shares and bulk acts on dead letters, at
full size, each on a PostgreSQL of its own. The same trials run at a short size in `make test` (`tests/failures`). What
jobs do is taken from lines that they fsync themselves, not from the queue's own tables.
"""

SAYS: Final = {
    "limit": (
        "A limit of three on a key",
        "Four processes of four slots, four keys, jobs of up to 20 ms; a process is killed every one to five seconds,"
        " and another one started. A job counts as running from its own first line to its last, or to the"
        " death of its process; one that a process too slow to renew its lease had lost meanwhile is counted apart."
        " Afterwards as many jobs as there are slots go through once more.",
    ),
    "rate": (
        "A rate of 100 a second",
        "The same processes, killed in the same way; a burst of ten. *Let through* is the moment of the claim, which is"
        " what is limited; a handler begins a little later, at the mercy of its own process.",
    ),
    "outage": (
        "A service that is down for 20 seconds",
        "Four processes of four slots; the service is down from the first call on, and jobs have the default of five"
        " attempts, with waits that double from one second. A breaker with a threshold of five opens for two seconds,"
        " then twice as long each time. Then the same without it.",
    ),
    "fair": (
        "A hundred thousand jobs of one tenant, then ten of another",
        "A fair queue with jobs of 10 ms, and a process of four slots; tenants with ten jobs each come one after the "
        "other. Over four processes, which hold four times as much under way, 39 to 138 were seen.",
    ),
    "letters": (
        "Fifty thousand dead letters, put back",
        "`wakeful dead requeue --task many --yes` on a terminal, with its bar; interrupted as by Ctrl-C at a quarter, a"
        " half and three quarters, and called again each time.",
    ),
}


def text(name: str, finding: Finding) -> str:
    """For a terminal."""
    seen = "\n".join(f"  {what}: {value}" for what, value in finding.seen.items())
    return f"{name}: {'; '.join(finding.broken) or 'holds'}\n{seen}"


def page(findings: Mapping[str, Finding]) -> str:
    """The page in the docs."""
    run = (
        f"Seen on {datetime.now(UTC):%d %B %Y}, on a machine of {os.cpu_count()} cores that does other work too:"
        " times are worth little, counts are not."
    )
    return "\n\n".join([PREFACE.strip(), run, *(section(name, finding) for name, finding in findings.items())]) + "\n"


def section(name: str, finding: Finding) -> str:
    """One trial: what was done, and what was seen."""
    title, says = SAYS[name]
    rows = "\n".join(f"| {what} | {value} |" for what, value in finding.seen.items())
    verdict = "Holds." if not finding.broken else f"Does not hold: {'; '.join(finding.broken)}."
    return f"## {title}\n{says}\n\n| | |\n| --- | --- |\n{rows}\n\n{verdict}"
