"""What exceptions mean: retried or final, whose fault, and without the secrets of the payload."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest

from wakeful.run.failure import failed, snoozed_behind
from wakeful.run.redact import secrets_in, without
from wakeful.values.errors import BreakerOpen, InvalidOption
from wakeful.values.failing import Failing, failing, retry_after
from wakeful.values.outcome import Dead, Retry
from wakeful.values.retry import Exponential, Fixed, Never, RetryPolicy, Steps
from wakeful.values.retry_json import policy_as_json, policy_in


class RateLimited(Exception):
    """As an HTTP client raises it."""

    def __init__(self, header: str) -> None:
        super().__init__("429")
        self.response = SimpleNamespace(headers={"Retry-After": header})


def test_listed_exceptions_are_retried_and_no_others() -> None:
    said = failing((ConnectionError, TimeoutError), None, None, None)
    assert not failed(ConnectionResetError(), said).final
    assert failed(ValueError(), said).final


def test_listed_exceptions_are_final_and_no_others() -> None:
    said = failing(None, KeyError, None, None)
    assert failed(KeyError("k"), said).final
    assert not failed(ValueError(), said).final


def test_an_exception_may_have_a_policy_of_its_own_the_nearest_class_first() -> None:
    said = failing({OSError: Fixed(1), ConnectionError: Fixed(2)}, None, None, None)
    assert failed(ConnectionResetError(), said).policy == Fixed(2)
    assert failed(PermissionError(), said).policy == Fixed(1)
    assert failed(ValueError(), said).policy is None


def test_retry_says_how_long_and_dead_is_final_and_nobody_elses_fault() -> None:
    assert failed(Retry(after=5), Failing()).retry_in == timedelta(seconds=5)
    dead = failed(Dead("no such user"), Failing())
    assert (dead.final, dead.fault) == (True, False)


def test_whose_fault_it_is_the_user_says() -> None:
    said = failing(None, None, lambda error: "down" in str(error), None)
    assert failed(OSError("down"), said).fault
    assert not failed(OSError("bad"), said).fault
    assert failed(OSError(), failing(None, None, lambda error: bool(1 / 0), None)).fault


def test_an_http_retry_after_is_kept_to() -> None:
    assert failed(RateLimited("120"), Failing()).retry_in == timedelta(minutes=2)
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    waits = retry_after(soon)
    assert waits is not None
    assert timedelta(seconds=85) < waits <= timedelta(seconds=90)
    assert retry_after(str(10**12)) == timedelta(days=1)
    assert [retry_after(value) for value in ("soon", "", object(), ValueError())] == [None] * 4


def test_an_open_breaker_snoozes_until_the_probe_and_a_little_later() -> None:
    waits = [snoozed_behind(BreakerOpen("smtp", 10.0)).delay.total_seconds() for _ in range(50)]
    assert min(waits) >= 10
    assert max(waits) <= 11.2
    assert len(set(waits)) > 40


CANARY = "s3cr3t-cänary\"'"


def test_secrets_of_the_payload_are_kept_out_of_errors_in_whichever_spelling() -> None:
    payload = json.dumps({"user": "ann", "login": {"password": CANARY}, "cards": [{"number": 4242, "cvc": "9"}]})
    said = failing(None, None, None, ["password", "cards.number"])
    secrets = secrets_in(payload, said.redact)
    try:
        body = json.dumps({"password": CANARY})
        raise ValueError(f"refused: {CANARY} {CANARY!r} {body} pwd={CANARY} card 4242 of ann")
    except ValueError as error:
        told = failed(error, said, secrets).error
    stored = f"{told.code} {told.message} {told.details}"
    assert "c\\u00e4nary" not in stored
    assert "cänary" not in stored
    assert "4242" not in stored
    assert "ann" in told.message
    assert "[redacted]" in told.message


def test_nothing_is_looked_for_where_nothing_is_secret() -> None:
    assert secrets_in('{"password": "x"}', ()) == []
    assert secrets_in("not json", ["password"]) == []
    assert without("as it is", secrets_in('{"password": ""}', ["password"])) == "as it is"


@pytest.mark.parametrize("policy", [Exponential(2, 3, 50, 0.5), Fixed(7, 0.2), Steps([0, 5.5]), Never()])
def test_a_policy_travels_with_a_job(policy: RetryPolicy) -> None:
    assert policy_in(json.dumps({"retry": policy_as_json(policy)})) == policy


def test_a_function_cannot_travel_and_what_cannot_be_read_is_left_alone() -> None:
    from wakeful.values.retry import retry_policy

    with pytest.raises(InvalidOption, match="cannot be stored"):
        policy_as_json(retry_policy(lambda attempt: 1))
    assert [
        policy_in(text) for text in ('{"retry": 5}', '{"retry": {"x": 1}}', "[]", '{"retry": {"fixed": [-1]}}')
    ] == [None] * 4


def test_a_thousand_that_failed_together_do_not_come_back_in_one_second() -> None:
    policy = Exponential()
    waits = [policy.delay(7) for _ in range(1000)]
    seconds = [int(wait.total_seconds()) for wait in waits if wait is not None]
    assert max(seconds.count(second) for second in set(seconds)) < 250
