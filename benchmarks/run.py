"""A run: every system in every measurement, in alternating order, round after round."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from benchmarks.bench import Bench, Failed
from benchmarks.environments.installed import NotInstalled
from benchmarks.figures import short
from benchmarks.machine import describe_machine
from benchmarks.measurement import Measurement
from benchmarks.results import Results, Sample
from benchmarks.server import running_server
from benchmarks.sizes import Sizes
from benchmarks.system import System


def run(
    systems: Sequence[System], measurements: Sequence[Measurement], *, rounds: int, sizes: Sizes, folder: Path
) -> Results:
    """Install, measure, and tell as it goes. Blocks for as long as that takes."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        server = stack.enter_context(running_server(folder / "server"))
        bench = Bench(server, folder, sizes, stack)
        results = Results(describe_machine(server))
        ready = _installed(bench, systems, results)
        for number in range(1, rounds + 1):
            for measurement in measurements:
                if number == 1 or measurement.repeated:
                    _measure(bench, measurement, _in_turn(ready, number), number, results)
                    # An interrupted run has its results too.
                    results.write(folder / "results.json")
    return results


def _installed(bench: Bench, systems: Iterable[System], results: Results) -> list[System]:
    ready = []
    for system in systems:
        try:
            versions = bench.install(system).versions
        except NotInstalled as reason:
            results.missing[system.title] = str(reason)
            print(f"  {system.title}: not measured, {reason}", flush=True)
            continue
        ready.append(system)
        results.systems[system.name] = {
            "title": system.title,
            "kind": system.kind,
            "store": system.store,
            "settings": system.settings,
            "version": versions.get(system.main_package or ""),
            "versions": {name: versions[name] for name in ("python", "node") if name in versions},
        }
    return ready


def _in_turn(systems: Sequence[System], number: int) -> list[System]:
    """Forwards in odd rounds, backwards in even ones: what the order does to a system averages out."""
    return list(systems if number % 2 else reversed(systems))


def _measure(bench: Bench, measurement: Measurement, systems: Sequence[System], number: int, results: Results) -> None:
    taking_part = [system for system in systems if measurement.applies_to(system)]
    if not taking_part:
        return
    print(f"{measurement.title} (round {number})", flush=True)
    # Those that do nothing can do it at the same time.
    with ThreadPoolExecutor(len(taking_part) if measurement.together else 1) as pool:
        samples = pool.map(lambda system: _sample(bench, measurement, system, number), taking_part)
        results.samples.extend(samples)


def _sample(bench: Bench, measurement: Measurement, system: System, number: int) -> Sample:
    began = time.monotonic()
    try:
        values = measurement.take(bench, system)
    # A run of half an hour must not end because one of many did something that nobody foresaw.
    except Exception as problem:
        told = str(problem) if isinstance(problem, Failed) else f"{type(problem).__name__}: {problem}"
        print(f"  {system.title:28} failed: {told}", flush=True)
        return Sample(measurement.name, system.name, number, {}, told)
    told = ", ".join(
        f"{short(values[figure.key])} {figure.unit}" for figure in measurement.figures[:3] if figure.key in values
    )
    notes = ", ".join(f"{key} {short(values[key])}" for key in ("lost", "doubled", "cut_off") if values.get(key))
    took = f"[{time.monotonic() - began:.1f} s]"
    print(f"  {system.title:28} {told:40} {notes} {took}", flush=True)
    return Sample(measurement.name, system.name, number, dict(values))
