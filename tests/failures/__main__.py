"""`make proof-failures`: limits, rates, breakers, fair shares and dead letters at full size, and the page in the docs.

Exit code 1 when something does not hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.chaos.server import private_server
from tests.failures import report
from tests.failures.sizes import FULL, SHORT, Sizes
from tests.failures.trial import Finding, Site
from tests.failures.trials import TRIALS

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "proof-failures.md"


def main() -> int:
    """Run what is asked for."""
    asked = arguments()
    names = asked.only.split(",") if asked.only else list(TRIALS)
    findings: dict[str, Finding] = {}
    for name in names:
        findings[name] = tried(name, SHORT if asked.short else FULL)
        print(report.text(name, findings[name]), flush=True)
    if len(findings) == len(TRIALS) and not asked.short:
        PAGE.write_text(report.page(findings))
    return 1 if any(finding.broken for finding in findings.values()) else 0


def tried(name: str, sizes: Sizes) -> Finding:
    """One trial on a server of its own. One that cannot be brought to its end does not hold."""
    with tempfile.TemporaryDirectory(prefix=f"wakeful-{name}-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        place.chmod(0o755)
        with private_server(place / "server", autovacuum="on") as server:
            try:
                return TRIALS[name](Site(server.dsn, place, sizes))
            # The others are run all the same; this one's line says why it has no numbers.
            except Exception as error:
                return Finding({}, [f"{type(error).__name__}: {error}"])


def arguments() -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="make proof-failures ARGS=…")
    parser.add_argument("--only", help=f"some of the trials, with commas between them: {', '.join(TRIALS)}")
    parser.add_argument("--short", action="store_true", help="at the size of the test suite")
    asked = parser.parse_args()
    if unknown := set((asked.only or "limit").split(",")) - TRIALS.keys():
        parser.error(f"there is no trial {min(unknown)}: known are {', '.join(TRIALS)}")
    return asked


if __name__ == "__main__":
    sys.exit(main())
