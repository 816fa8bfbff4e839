"""Tasks: what the decorator makes of a function, and what it refuses at import."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from wakeful import Context, Fixed, InvalidOption, Never, PayloadError, Steps, SyncContext, Task, Wakeful
from wakeful.values.retry import DEFAULT_RETRY

NOWHERE = "postgresql://nobody@127.0.0.1:1/nowhere"
app = Wakeful(NOWHERE)


@app.task
def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


@app.task(executor="process")
def far_away(number: int) -> int:
    return number + 1


class Local:
    @staticmethod
    @app.task
    def method(number: int) -> int:
        return number


def test_calling_a_task_runs_it_in_place() -> None:
    assert double(4) == 8
    assert double.__name__ == "double"
    assert double.__doc__ == "Twice the number."


async def test_calling_an_async_task_gives_its_coroutine() -> None:
    @app.task
    async def later(number: int) -> int:
        return number

    assert await later(3) == 3
    assert later.spec.place == "loop"


def test_a_task_is_named_after_its_module_and_function() -> None:
    assert double.name == f"{__name__}.double"
    assert Local.method.name == f"{__name__}.Local.method"
    assert app.tasks[double.name] is double

    @app.task
    def inner() -> None: ...

    assert inner.name == f"{__name__}.test_a_task_is_named_after_its_module_and_function.inner"


def test_a_task_of_a_script_is_named_after_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def send() -> None: ...

    send.__module__, send.__qualname__ = "__main__", "send"
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/srv/shop/mails.py", raising=False)
    assert Wakeful(NOWHERE).task(send).name == "mails.send"


def test_a_task_has_what_is_said_about_it() -> None:
    @Wakeful(NOWHERE).task(
        name="t",
        queue="mail",
        priority=-3,
        retry=Fixed("5s"),
        max_retries=2,
        timeout="2m",
        lease=90,
        batch=100,
        linger="50ms",
        enabled=False,
    )
    def send(number: int) -> None: ...

    spec = send.spec
    assert (spec.name, spec.queue, spec.priority, spec.max_attempts) == ("t", "mail", -3, 3)
    assert (spec.retry, spec.timeout, spec.lease) == (Fixed(5), timedelta(minutes=2), timedelta(seconds=90))
    assert (spec.batch, spec.linger, spec.enabled, spec.place) == (
        100,
        timedelta(milliseconds=50),
        False,
        "thread",
    )


def test_a_task_of_which_nothing_is_said_has_the_defaults() -> None:
    spec = double.spec
    assert (spec.queue, spec.priority, spec.max_attempts, spec.retry) == ("default", 0, 5, DEFAULT_RETRY)
    assert (spec.timeout, spec.lease, spec.batch, spec.enabled, spec.place) == (
        None,
        None,
        None,
        True,
        "thread",
    )


def test_a_retry_policy_may_imply_the_attempts() -> None:
    fresh = Wakeful(NOWHERE)
    assert fresh.task(name="a", retry=Steps([0, 30, 300]))(nothing).spec.max_attempts == 3
    assert fresh.task(name="b", retry=Never())(nothing).spec.max_attempts == 1
    assert fresh.task(name="c", retry=lambda attempt: attempt)(nothing).spec.max_attempts == 5


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"queue": ""}, "queue"),
    ({"queue": "a,b"}, "queue"),
    ({"priority": 101}, "priority"),
    ({"priority": 1.5}, "priority"),
    ({"max_attempts": 0}, "max_attempts"),
    ({"max_attempts": 3, "max_retries": 2}, "max_retries"),
    ({"retry": "often"}, "retry"),
    ({"retry": Never}, "retry"),
    ({"timeout": 0}, "timeout"),
    ({"timeout": "soon"}, "timeout"),
    ({"lease": -1}, "lease"),
    ({"executor": "greenlet"}, "executor"),
    ({"executor": "process"}, "executor"),
    ({"batch": 1}, "batch"),
    ({"linger": "1s"}, "linger"),
    ({"batch": 5, "linger": "1h"}, "linger"),
    ({"enabled": "yes"}, "enabled"),
    ({"tiemout": 5}, "tiemout"),
]


@pytest.mark.parametrize(("options", "field"), WRONG, ids=ascii)
def test_a_wrong_option_is_refused_at_import_with_task_and_field(options: dict[str, Any], field: str) -> None:
    def local() -> None: ...

    with pytest.raises(InvalidOption) as caught:
        Wakeful(NOWHERE).task(name="mail.send", **options)(local)
    assert caught.value.option == field
    assert str(caught.value).startswith(f"Task mail.send: {field} ")


def test_an_executor_for_an_async_function_is_refused() -> None:
    async def handler() -> None: ...

    with pytest.raises(InvalidOption, match="runs on the loop"):
        Wakeful(NOWHERE).task(executor="thread")(handler)


def test_a_process_has_no_context() -> None:
    with pytest.raises(InvalidOption, match="no context for ctx"):
        Wakeful(NOWHERE).task(executor="process")(with_context)


def test_a_name_that_is_taken_is_refused_but_a_module_may_be_loaded_again() -> None:
    fresh = Wakeful(NOWHERE)
    fresh.task(name="t")(nothing)
    again = fresh.task(name="t")(nothing)
    assert fresh.tasks["t"] is again
    with pytest.raises(InvalidOption, match=r"Task t: .*nothing has this name"):
        fresh.task(name="t")(with_context)
    with pytest.raises(InvalidOption, match="white space"):
        fresh.task(name="a b")(nothing)


def test_only_functions_become_tasks() -> None:
    fresh: Any = Wakeful(NOWHERE)
    for wrong in (double, 5, "name"):
        with pytest.raises(InvalidOption, match="decorate a function"):
            fresh.task(wrong)


def test_parameters_that_have_no_name_in_a_payload_are_refused() -> None:
    def several(*numbers: int) -> None: ...

    with pytest.raises(PayloadError, match="numbers"):
        Wakeful(NOWHERE).task(several)


def test_a_context_is_known_by_its_type_and_by_its_name() -> None:
    def unimported(context: wakeful.Context, number: int) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def quoted(number: int, *, ctx: SyncContext | None = None) -> None: ...

    fresh = Wakeful(NOWHERE)
    assert fresh.task(with_context).codec.context == "ctx"
    assert fresh.task(unimported).codec.context == "context"
    assert fresh.task(quoted).codec.context == "ctx"
    assert double.codec.context is None


def test_a_stored_payload_calls_the_function() -> None:
    assert far_away.run_payload('{"number": 4}') == 5
    assert far_away.spec.place == "process"


def test_using_gives_a_configured_copy() -> None:
    urgent = double.using(priority=50, tenant="a")
    assert isinstance(urgent, Task)
    assert (urgent.options.priority, urgent.options.tenant) == (50, "a")
    assert double.options.priority is None
    assert urgent.using(tenant="b").options.priority == 50
    assert urgent(3) == 6
    assert app.tasks[double.name] is double


def test_the_later_copy_says_when() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    assert double.using(delay=5).using(run_at=at).options.delay is None
    assert double.using(run_at=at).using(delay="1m").options.run_at is None
    assert double.using(delay="1m").using(queue="q").options.delay == timedelta(minutes=1)


WRONG_USE: list[tuple[dict[str, Any], str]] = [
    ({"queue": ""}, "queue"),
    ({"priority": -101}, "priority"),
    ({"delay": -1}, "delay"),
    ({"delay": "soon"}, "delay"),
    ({"run_at": datetime(2026, 1, 1)}, "run_at"),
    ({"run_at": "2026-01-01"}, "run_at"),
    ({"run_at": datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(-timedelta(hours=12)))}, "run_at"),
    ({"run_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=12)))}, "run_at"),
    ({"expires_at": datetime.max.replace(tzinfo=UTC)}, "expires_at"),
    ({"delay": "400000 days"}, "delay"),
    ({"delay": 1, "run_at": datetime(2026, 1, 1, tzinfo=UTC)}, "run_at"),
    ({"expires_at": datetime(2026, 1, 1)}, "expires_at"),
    ({"expires_at": datetime(2001, 1, 1, tzinfo=UTC)}, "expires_at"),
    ({"max_attempts": 0}, "max_attempts"),
    ({"max_attempts": 2, "max_retries": 1}, "max_retries"),
    ({"dedup_key": ""}, "dedup_key"),
    ({"dedup_key": "a\x00"}, "dedup_key"),
    ({"dedup_key": "\ud800"}, "dedup_key"),
    ({"dedup_key": 5}, "dedup_key"),
    ({"dedup_key": "ä" * 1001}, "dedup_key"),
    ({"dedup": "merge", "dedup_key": "k"}, "dedup"),
    ({"tenant": " "}, "tenant"),
    ({"created_by": "\n"}, "created_by"),
    ({"correlation_id": "mine"}, "correlation_id"),
    ({"id": 5}, "id"),
    ({"metadata": [1]}, "metadata"),
    ({"tags": "urgent"}, "tags"),
    ({"poke": "no"}, "poke"),
    ({"prioritee": 1}, "prioritee"),
]


@pytest.mark.parametrize(("options", "field"), WRONG_USE, ids=ascii)
def test_a_wrong_option_of_an_enqueue_is_refused_by_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        double.using(**options)
    assert caught.value.option == field
    with pytest.raises(InvalidOption):
        app.enqueue("elsewhere", **options)


def test_options_that_need_each_other_are_refused_when_it_is_enqueued() -> None:
    with pytest.raises(InvalidOption, match="without a dedup_key"):
        double.using(dedup="replace").enqueue(1)
    with pytest.raises(InvalidOption, match=r"metadata a.*NUL"):
        double.using(metadata={"a": "\x00"}).enqueue(1)
    with pytest.raises(InvalidOption, match="white space"):
        app.enqueue("two words", id=uuid4())


@pytest.mark.parametrize("dsn", [5, "", " \n"])
def test_what_is_no_address_is_refused_when_the_app_is_made(dsn: Any) -> None:
    with pytest.raises(InvalidOption, match="leave it out to use the embedded server") as caught:
        Wakeful(dsn)
    assert caught.value.option == "dsn"


def test_what_is_no_list_of_calls_is_refused_in_a_sentence() -> None:
    calls: Any = 5
    batched = Wakeful(NOWHERE).task(batch=5)(in_lists)
    for task in (double, batched):
        with pytest.raises(InvalidOption, match="calls is of type int: give a list of mappings, one a job"):
            task.enqueue_many(calls)
    with pytest.raises(PayloadError, match=r"`\[1\]` is of type int: give a mapping of names to values"):
        double.enqueue_many([{"number": 1}, calls])
    with pytest.raises(PayloadError, match="The payload is of type int: give a mapping"):
        app.enqueue("elsewhere", calls)


def nothing() -> None: ...


def in_lists(items: list[dict[str, int]]) -> None: ...


def with_context(ctx: Context, number: int) -> None: ...


def test_what_would_never_run_is_no_task() -> None:
    fresh: Any = Wakeful(NOWHERE)

    def sync_rows() -> Iterator[int]:
        yield 1

    async def async_rows() -> AsyncIterator[int]:
        yield 1

    class Rows:
        def __call__(self) -> Iterator[int]:
            yield 1

    for generator in (sync_rows, async_rows, Rows(), functools.partial(sync_rows)):
        with pytest.raises(InvalidOption, match="a generator, which would never run"):
            fresh.task(generator)
    with pytest.raises(InvalidOption, match="decorate a function"):
        fresh.task(Rows)


def test_a_function_that_hides_another_of_its_module_is_refused_and_a_module_that_is_loaded_again_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "shared_app.py").write_text("from wakeful import Wakeful\napp = Wakeful()\n")
    once = "from shared_app import app\n@app.task\ndef a() -> None: ...\n"
    (tmp_path / "once_declared.py").write_text(once)
    (tmp_path / "twice_declared.py").write_text(once + "@app.task\ndef a() -> None: ...\n")
    module = importlib.import_module("once_declared")
    importlib.reload(module)
    with pytest.raises(InvalidOption, match=r"Task twice_declared\.a is declared twice"):
        importlib.import_module("twice_declared")
