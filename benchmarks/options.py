"""What can be asked on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

import benchmarks
from benchmarks.contestants import PEERS
from benchmarks.measure import MEASUREMENTS
from benchmarks.measurement import Measurement
from benchmarks.sizes import BRIEF, QUICK, Sizes


@dataclass(frozen=True, slots=True)
class Options:
    """A run, or the check of the last one."""

    peers: tuple[str, ...]
    measurements: tuple[Measurement, ...]
    rounds: int
    sizes: Sizes
    publish: bool
    add: bool
    check: bool


def read_options(arguments: Sequence[str] | None = None) -> Options:
    """From the command line; exits with 2 when it makes no sense."""
    parser = _parser()
    given = parser.parse_args(arguments)
    known = {measurement.name: measurement for measurement in MEASUREMENTS}
    peers = tuple(given.peers.split(","))
    names = given.only.split(",") if given.only else list(known)
    allowed = {*(peer.name for peer in PEERS), "all", "few", "none"}
    for name, choices in [*((name, set(known)) for name in names), *((name, allowed) for name in peers)]:
        if name not in choices:
            parser.error(f"{name} is none of {', '.join(sorted(choices))}")
    brief = peers == ("few",) and not (given.only or given.quick or given.long or given.check)
    sizes = QUICK if given.quick else BRIEF if brief else Sizes()
    if given.long:
        sizes = replace(sizes, history_millions=(0, 1, 10), memory_jobs=1_000_000)
    complete = peers == ("all",) and not given.only and not given.quick
    return Options(
        peers=peers,
        measurements=tuple(_of(known[name], brief) for name in names),
        rounds=given.rounds or (1 if given.quick or brief else 3),
        sizes=sizes,
        publish=given.publish or given.add or complete,
        add=given.add,
        check=given.check,
    )


def _of(measurement: Measurement, brief: bool) -> Measurement:
    return measurement.uncontested() if brief and not measurement.contested else measurement


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description=benchmarks.__doc__)
    names = ", ".join(measurement.name for measurement in MEASUREMENTS)
    parser.add_argument("--peers", default="few", help="all, few (the default), none, or names with commas between")
    parser.add_argument("--only", metavar="NAME[,NAME]", help=f"some of the measurements: {names}")
    parser.add_argument(
        "--rounds", type=int, help="rounds, in alternating order (3; 1 where nothing else is asked for)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: does it work at all?")
    parser.add_argument(
        "--long", action="store_true", help="also ten million finished jobs, and our memory over a million"
    )
    # What is compared with the published ratios must not become them first.
    then = parser.add_mutually_exclusive_group()
    then.add_argument(
        "--publish", action="store_true", help="write docs/explanation/benchmarks.md; a complete run does"
    )
    then.add_argument("--add", action="store_true", help="add these rounds to the published ones")
    then.add_argument("--check", action="store_true", help="compare ratios with the published ones, and say what moved")
    return parser
