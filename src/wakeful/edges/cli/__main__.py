"""`wakeful`, and `python -m wakeful.edges.cli` for those who know the interpreter and not where scripts are."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Run a command and exit with its code. Ctrl-C is told in a sentence while everything is still being imported."""
    try:
        from wakeful.edges.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("wakeful: Interrupted.\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
