"""What `@app.schedule` takes, and refuses in the caller's own stack frame."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from wakeful import Context, InvalidOption, PayloadError, Task, Wakeful
from wakeful.statements.schedules import digest
from wakeful.values.schedule import Cron, Every


@pytest.fixture
def app() -> Wakeful:
    return Wakeful("postgresql://nobody@localhost:1/none")


def test_over_a_function_it_makes_a_task(app: Wakeful) -> None:
    @app.schedule("*/5 * * * *", tz="Europe/Helsinki")
    def tidy() -> int:
        return 7

    assert isinstance(tidy, Task)
    assert tidy() == 7
    [one] = app.schedules.declarations()
    assert (one.name, one.task) == (tidy.name, tidy.name)
    assert one.timing == Cron("*/5 * * * *", "Europe/Helsinki")


def test_over_a_task_it_leaves_it_as_it_is(app: Wakeful) -> None:
    @app.schedule(every=timedelta(minutes=10), name="often", payload={"size": 3}, priority=9, misfire="skip")
    @app.task(name="tidy", queue="slow", max_attempts=2)
    async def tidy(ctx: Context, size: int) -> None: ...

    assert app.tasks["tidy"] is tidy
    [one] = app.schedules.declarations()
    assert (one.name, one.queue, one.payload, one.misfire) == ("often", "slow", '{"size":3}', "skip")
    assert one.timing == Every(timedelta(minutes=10))
    assert one.options == '{"priority": 9, "max_attempts": 2}'


def test_a_task_may_have_several_by_name(app: Wakeful) -> None:
    @app.schedule("0 7 * * *", name="morning")
    @app.schedule("0 19 * * *", name="evening")
    def report() -> None: ...

    assert sorted(app.schedules.declared) == ["evening", "morning"]


def test_but_not_two_of_one_name(app: Wakeful) -> None:
    @app.schedule("0 7 * * *")
    def report() -> None: ...

    with pytest.raises(InvalidOption, match="declared twice: give one of them a name="):
        app.schedule("0 19 * * *")(report)


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({}, "give one of them, a cron line or a duration"),
        ({"every": "0.5s"}, "every is '0.5s': give at least a second"),
        ({"every": "1h", "misfire": "never"}, "misfire is 'never': use one of latest, skip, all"),
        ({"every": "1h", "cap": 0}, "cap"),
        ({"every": "1h", "version": -1}, "version"),
        ({"every": "1h", "name": " "}, "name is ' '"),
        ({"every": "1h", "priorty": 3}, "priorty is no option of a schedule: did you mean priority"),
        ({"every": "1h", "delay": 3}, "delay is no option of a schedule: known are"),
        ({"every": "1h", "dedup_key": "k", "dedup": "raise"}, "there is nobody to tell"),
        ({"every": "1h", "priority": 101}, "priority"),
    ],
)
def test_what_it_is_told_is_checked_at_once(app: Wakeful, said: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidOption, match=fault):

        @app.schedule(**said)
        def tidy() -> None: ...


def test_a_cron_line_beside_an_interval_is_refused(app: Wakeful) -> None:
    with pytest.raises(InvalidOption, match="give one of them"):
        app.schedule("@daily", every="1h")(lambda: None)


def test_the_parentheses_forgotten_are_told(app: Wakeful) -> None:
    def tidy() -> None: ...

    with pytest.raises(InvalidOption, match="write a cron line"):
        app.schedule(tidy)(tidy)  # type: ignore[arg-type]


def test_a_task_that_needs_arguments_is_given_them(app: Wakeful) -> None:
    with pytest.raises(PayloadError, match="is missing"):

        @app.schedule("@daily")
        def tidy(size: int) -> None: ...

    app.schedule("@daily", name="n", payload={"size": "large"})(*app.tasks.values())
    with pytest.raises(PayloadError, match="size"):
        app.schedules.declarations()


def test_the_same_words_have_the_same_digest_and_others_another(app: Wakeful) -> None:
    @app.task(name="t")
    def t(size: int = 1) -> None: ...

    def made(**said: Any) -> str:
        other = Wakeful("postgresql://nobody@localhost:1/none")
        other.schedule(**{"every": "1h", **said})(t)
        [one] = other.schedules.declarations()
        return digest(one)

    assert made() == made()
    others = [made(every="2h"), made(payload={"size": 2}), made(misfire="all"), made(queue="q"), made(cap=7)]
    assert len({made(), *others}) == 6
