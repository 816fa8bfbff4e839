"""The benchmarks' own machinery: a tiny run from end to end, and what it says about figures made up for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.bare import functions, psycopg
from benchmarks.bench import Bench, Failed
from benchmarks.check import moves
from benchmarks.contestants import OURS, PEERS
from benchmarks.goals import GOALS
from benchmarks.measure import MEASUREMENTS
from benchmarks.measure.drain import ONE_PROCESS
from benchmarks.measure.enqueue import IN_BULK, ONE_BY_ONE
from benchmarks.measurement import Measurement, Values, everyone
from benchmarks.options import read_options
from benchmarks.report.page import publish
from benchmarks.report.terminal import tell
from benchmarks.results import Results, Sample, read_results
from benchmarks.run import run
from benchmarks.sizes import QUICK
from benchmarks.system import Python, System

TINY = replace(QUICK, drain_share=0.01, enqueue_seconds=0.1, bulk_jobs=200)
MEASURED = (ONE_BY_ONE, IN_BULK, ONE_PROCESS)


def fail_for_ours(bench: Bench, system: System) -> Values:
    """Fails for one of them."""
    if system is OURS:
        raise Failed("it did not work")
    return {"jobs_per_second": 1.0}


BROKEN = Measurement("broken", "Broken", IN_BULK.figures, fail_for_ours, everyone)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A run of wakeful, its functions and the bare driver, beside a system that cannot be had."""
    absent = replace(psycopg.SYSTEM, name="absent", title="Absent", home=Python(("psycopg",), at_least=(9, 0)))
    systems = (OURS, *(replace(system, only=None) for system in (psycopg.SYSTEM, functions.SYSTEM)), absent)
    return run(systems, (BROKEN, *MEASURED), rounds=1, sizes=TINY, folder=tmp_path_factory.mktemp("bench") / "run")


def test_every_system_is_measured_and_every_job_runs_once(results: Results) -> None:
    for measurement in MEASURED:
        assert results.systems_in(measurement.name) == ["wakeful", "bare-psycopg", "functions"]
    for sample in results.samples:
        if sample.measurement == "broken":
            continue
        assert sample.values["jobs_per_second"] > 0
        if sample.measurement == "drain":
            assert (sample.values["handled"], sample.values["doubled"], sample.values["cut_off"]) == (500, 0, 0)


def test_a_job_costs_write_ahead_log_and_few_commits(results: Results) -> None:
    costs = results.samples[-1].values
    assert costs["wal_bytes"] > 200
    assert 0 < costs["commits"] < 1
    assert costs["dead_tuples"] >= 1


def test_a_system_that_cannot_be_installed_is_named(results: Results) -> None:
    assert results.missing == {"Absent": "needs Python 9.0 or newer"}
    assert "Absent: needs Python 9.0 or newer" in tell(results, MEASURED)


def test_a_goal_is_told_with_its_value_or_as_not_measured(results: Results) -> None:
    verdicts = {goal.sentence: goal.verdict(results) for goal in GOALS}
    bulk = verdicts["Bulk enqueue, to a plain set-wise insert"]
    assert bulk.value is not None
    assert bulk.word == ("met" if bulk.value >= 0.5 else "not met")
    assert verdicts["Drain, to PgQueuer"].word == "not measured"


def test_results_survive_being_written_and_read(results: Results, tmp_path: Path) -> None:
    results.write(tmp_path / "results.json")
    assert read_results(tmp_path / "results.json") == results


def test_the_page_has_a_table_and_a_plot_for_each_measurement(results: Results, tmp_path: Path) -> None:
    page = publish(results, MEASURED, tmp_path).read_text("utf-8")
    for measurement in MEASURED:
        assert f"## {measurement.title}" in page
        assert f"](benchmarks/{measurement.name}.svg)" in page
        ElementTree.parse(tmp_path / "benchmarks" / f"{measurement.name}.svg")
    assert "| wakeful |" in page
    assert all(f"{figure.title}, {figure.unit}" in page for figure in ONE_PROCESS.figures)
    assert read_results(tmp_path / "benchmarks" / "results.json") == results


def test_a_failing_system_is_told_and_the_others_go_on(results: Results) -> None:
    [failed] = results.problems()
    assert (failed.system, failed.problem) == ("wakeful", "it did not work")
    assert results.systems_in("broken") == ["bare-psycopg", "functions"]


def made_up(ours: float, theirs: float) -> Results:
    samples = [
        Sample("bulk", system, number, {"jobs_per_second": rate})
        for number in (1, 2, 3)
        for system, rate in (("wakeful", ours + number), ("bare-psycopg", theirs + number))
    ]
    titles = {name: {"title": name, "kind": "bare", "store": "postgres"} for name in ("wakeful", "bare-psycopg")}
    return Results({}, titles, {}, samples)


def test_a_ratio_that_sank_is_told_as_worse_and_one_that_rose_as_better() -> None:
    published = made_up(1000, 2000)
    assert list(moves(published, made_up(500, 1000), [IN_BULK])) == []
    [sunk] = moves(published, made_up(500, 2000), [IN_BULK])
    [risen] = moves(published, made_up(2000, 2000), [IN_BULK])
    assert (sunk.worse, risen.worse) == (True, False)
    assert str(sunk).startswith("worse: bulk, wakeful to bare-psycopg 0.25")


def test_the_rounds_of_a_later_run_are_added_to_the_published_ones() -> None:
    both = made_up(1000, 2000).with_rounds_of(made_up(4000, 2000))
    assert list(both.rounds("bulk", "wakeful", "jobs_per_second")) == [1, 2, 3, 4, 5, 6]
    ratio = both.ratio("bulk", "jobs_per_second", "wakeful", "bare-psycopg")
    assert ratio is not None
    # Each within its round: never the first run's 1,000 to the second one's 2,000.
    assert ratio.low < 0.51
    assert ratio.high > 1.99
    assert read_options(["--only", "bulk", "--add"]).publish


@pytest.mark.parametrize(
    ("asked", "contested"),
    [([], ["drain", "enqueue", "idle", "latency"]), (["--only", "drain,timers"], ["drain", "timers"])],
)
def test_a_brief_run_measures_everything_and_rivals_where_goals_name_them(
    asked: list[str], contested: list[str]
) -> None:
    options = read_options(asked)
    ours = {measurement.name for measurement in options.measurements if measurement.applies_to(OURS)}
    theirs = {measurement.name for measurement in options.measurements if measurement.applies_to(PEERS[0])}
    assert sorted(theirs) == contested
    assert theirs <= ours
    assert len(options.measurements) == (len(MEASUREMENTS) if not asked else 2)
