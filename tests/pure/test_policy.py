"""What is said about breakers, tasks and queues: read where it is said, and refused in a sentence that names it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from wakeful.app import Wakeful
from wakeful.config import Settings, load
from wakeful.values.errors import ConfigError, InvalidOption
from wakeful.values.policy import BreakerPolicy, Rate, rate
from wakeful.values.retry import Exponential, Fixed, Steps


@pytest.fixture
def app() -> Wakeful:
    return Wakeful(settings=Settings())


@pytest.mark.parametrize(
    ("said", "count", "seconds"),
    [("100/m", 100, 60), ("100 per minute", 100, 60), ("5 per 30s", 5, 30), ("0.5/s", 0.5, 1), (20, 20, 1)],
)
def test_a_rate_is_written_as_people_say_it(said: object, count: float, seconds: float) -> None:
    assert rate(said) == Rate(count, timedelta(seconds=seconds))


@pytest.mark.parametrize("said", ["100", "often", "0/m", "-5/m", "5/0s", "5 per fortnight", True, [], "5/"])
def test_a_rate_that_cannot_be_is_refused(said: object) -> None:
    with pytest.raises(InvalidOption, match="rate"):
        rate(said)


BAD_TASKS: list[tuple[dict[str, Any], str]] = [
    ({"concurrency": -1}, "concurrency"),
    ({"concurrency": 0}, "concurrency"),
    ({"rate": "0/s"}, "rate"),
    ({"rate": "5/s", "burst": 0}, "burst"),
    ({"burst": 5}, "burst"),
    ({"limit_key": "tenant"}, "limit_key"),
    ({"concurrency": 1, "limit_key": "a..b"}, "limit_key"),
    ({"concurrency": 1, "limit_key": lambda payload: payload["account"]}, "limit_key"),
    ({"retry": Exponential, "max_attempts": 3}, "retry"),
    ({"breaker": ""}, "breaker"),
    ({"breaker": 5}, "breaker"),
    ({"breaker_on": ValueError}, "breaker_on"),
    ({"breaker": "smtp", "breaker_on": "errors"}, "breaker_on"),
    ({"retry_on": "ValueError"}, "retry_on"),
    ({"retry_on": {ValueError: 5}}, "retry_on"),
    ({"dead_on": ()}, "dead_on"),
    ({"redact": "password"}, "redact"),
]


def test_a_function_as_key_is_refused_with_what_to_do_instead(app: Wakeful) -> None:
    with pytest.raises(InvalidOption, match="put what it computes into the payload, and give the path to it"):
        app.task(name="t", concurrency=1, limit_key=lambda payload: payload["account"])(lambda: None)  # type: ignore[call-overload]


@pytest.mark.parametrize(("options", "field"), BAD_TASKS)
def test_a_task_is_refused_where_it_is_declared_by_its_name_and_field(
    app: Wakeful, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidOption, match=rf"^Task mail\.send: {field} ") as refused:
        app.task(name="mail.send", **options)(lambda: None)
    assert refused.value.option == field


def test_a_policy_that_cannot_be_is_refused_by_the_name_of_the_task_it_is_made_for(app: Wakeful) -> None:
    with pytest.raises(InvalidOption, match=r"^Task mail\.send: jitter is 2") as refused:

        @app.task(
            name="mail.send",
            retry=Exponential(jitter=2),
        )
        async def send() -> None: ...

    assert refused.value.option == "jitter"
    with pytest.raises(InvalidOption, match=r"^Task \S*test_policy\.\S+\.later: cap is 1, below the base of 10"):

        @app.task(retry_on={ValueError: Exponential(base=10, cap=1)})
        def later() -> None: ...


def test_away_from_any_task_a_policy_is_refused_by_its_field_alone() -> None:
    with pytest.raises(InvalidOption, match=r"^wait is -1"):
        Fixed(-1)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"threshold": 0}, "threshold"),
        ({"open_for": "1m", "cap": "1s"}, "cap"),
        ({"window": -1}, "window"),
        ({"probes": -1}, "probes"),
        ({"treshold": 3}, "treshold"),
    ],
)
def test_a_breaker_is_refused_by_its_name_and_field(app: Wakeful, options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidOption, match=f"^Breaker smtp: {field} "):
        app.breaker("smtp", **options)


def test_where_breakers_are_declared_an_unknown_one_is_refused(app: Wakeful) -> None:
    app.breaker("smtp", threshold=3)
    app.task(name="a", breaker="smtp")(lambda: None)
    with pytest.raises(InvalidOption, match=r"^Task b: breaker is 'smpt', .* known are smtp\."):
        app.task(name="b", breaker="smpt")(lambda: None)
    with pytest.raises(InvalidOption, match="name is 'stmp'"):
        app.breaker("stmp")


def test_without_any_declaration_a_name_is_enough(app: Wakeful) -> None:
    app.task(name="a", breaker="smtp")(lambda: None)
    assert app.breaker("api") is app.breaker("api")
    assert set(app.policies().breakers) == {"smtp", "api"}


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"ageing": "0s"}, "ageing"),
        ({"weights": {"a": 0}}, "weights.a"),
        ({"weights": [1]}, "weights"),
        ({"fair": "yes"}, "fair"),
        ({"max_pending": -1}, "max_pending"),
        ({"speed": 1}, "speed"),
    ],
)
def test_a_queue_is_refused_by_its_name_and_field(app: Wakeful, options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidOption, match=f"^Queue mail: {field} "):
        app.configure_queue("mail", **options)


SEED = """
[worker]
poll_interval = 1

[retry]
base_ms = 1000
max_ms = 300000
jitter = 0.1

[breaker]
failure_threshold = 5
open_duration_ms = 60000

[breaker.smtp]
threshold = 2

[queue.mail]
rate = "100 per minute"
weights = {gold = 4}
"""


def read(folder: Path, text: str) -> Settings:
    (folder / "wakeful.toml").write_text(text)
    return load(environ={}, directory=folder)


def test_the_configuration_of_another_queue_is_taken_as_it_is(tmp_path: Path) -> None:
    steering = read(tmp_path, SEED).steering
    assert steering.retry == Exponential(1, 2, 300, 0.1)
    assert (steering.breaker.threshold, steering.breaker.open_for) == (5, timedelta(minutes=1))
    assert steering.breakers == {"smtp": BreakerPolicy(threshold=2)}
    assert steering.queues["mail"].fair
    app = Wakeful(settings=read(tmp_path, SEED))
    app.breaker("smtp", probes=3)
    assert app.policies().breakers["smtp"] == BreakerPolicy(2, None, timedelta(minutes=1), None, 3)


def test_tasks_that_say_nothing_take_the_settings_and_others_do_not(tmp_path: Path) -> None:
    app = Wakeful(settings=read(tmp_path, "[retry]\nsteps = [0, 5]\n"))
    plain = app.task(name="plain")(lambda: None)
    own = app.task(name="own", retry=Fixed(1), max_attempts=9)(lambda: None)
    from wakeful.worker.build import handler_of

    steering = app.settings.steering
    assert (steering.retry, steering.max_attempts) == (Steps([0, 5]), 2)
    assert handler_of(plain, timedelta(1), steering.retry).retry == Steps([0, 5])
    assert handler_of(own, timedelta(1), steering.retry).retry == Fixed(1)
    assert plain.template.job(__import__("uuid").uuid4(), "{}").max_attempts == 2
    assert own.template.job(__import__("uuid").uuid4(), "{}").max_attempts == 9


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[retry]\njitter = 2", r"\[retry\] jitter is 2"),
        ("[retry]\nbase = 10\ncap = 1", r"\[retry\] cap is 1, below the base"),
        ("[retry]\nspeed = 1", r"\[retry\] speed is not known"),
        ("[queue.mail]\nspeed = 1", r"\[queue.mail\] speed is not known: use concurrency, rate, .*, burst\."),
        ("[breaker]\nthreshold = 0", r"\[breaker\] threshold is 0"),
        ("[breaker.smtp]\nopen_for = '1m'\ncap = '1s'", r"\[breaker.smtp\] cap is '1s', below open_for"),
        ("[queue]\nrate = 5", r"\[queue\] rate in .* write \[queue.NAME\]"),
        ("[queue.mail]\nconcurrency = -1", r"\[queue.mail\] concurrency is -1"),
        ("retry = 5", "retry in .* not a table"),
    ],
)
def test_a_bad_line_of_the_file_is_told_by_its_table_and_name(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read(tmp_path, text)
